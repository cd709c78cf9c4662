#include "runtime/export/licence.hpp"

#include <nlohmann/json.hpp>

#include "runtime/export/checkout.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

std::string id_of(std::string_view text) {
  return licence_in(text).value_or("unknown");
}

TEST_CASE("a source's SPDX line is taken as it stands") {
  CHECK(id_of("# SPDX-License-Identifier: MIT\nx = 1\n") == "MIT");
  CHECK(id_of("/* SPDX-License-Identifier: (MIT OR Apache-2.0) */") ==
        "(MIT OR Apache-2.0)");
  CHECK(id_of("# SPDX-License-Identifier: GPL-2.0-only WITH x-exception\r\n") ==
        "GPL-2.0-only WITH x-exception");
  CHECK(id_of("# SPDX-License-Identifier:\n") == "unknown");
  CHECK(id_of("# SPDX-License-Identifier: <script>\n") == "unknown");
}

TEST_CASE("notices and licences are known by their words") {
  CHECK(id_of("MIT License\n\nCopyright (c) 2020 A") == "MIT");
  CHECK(id_of("# Permission is hereby granted, free of charge, to any\n"
              "# person obtaining a copy of this software") == "MIT");
  CHECK(id_of("                                 Apache License\n"
              "                           Version 2.0, January 2004") ==
        "Apache-2.0");
  CHECK(id_of("Redistribution and use in source and binary forms, with or\n"
              "without modification, are permitted") == "BSD-2-Clause");
  CHECK(id_of("Redistribution and use in source and binary forms … be used\n"
              "to … may be used to endorse or promote products derived from") ==
        "BSD-3-Clause");
  CHECK(id_of("GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n … use the "
              "GNU Affero General Public License version 3") == "GPL-3.0");
  CHECK(id_of("terms of the GNU General Public License as published by\n# the "
              "Free Software Foundation, either version 2 of the License") ==
        "GPL-2.0-or-later");
  CHECK(id_of("All rights reserved.") == "unknown");
  CHECK(id_of("") == "unknown");
  CHECK(id_of(std::string(1 << 20, 'x') + "\nMIT License") == "unknown");
}

TEST_CASE("copyright lines are kept without their comment marks") {
  CHECK(copyrights_in("# Copyright (c) 2024 A\n#\n * Copyright 2023 B\n"
                      "copyright = 'no notice'\n") ==
        std::vector<std::string>{"Copyright (c) 2024 A", "Copyright 2023 B"});
  CHECK(copyrights_in("").empty());
}

TEST_CASE("a remote's link has no user, password or machine's folder") {
  const std::string link = "https://host.example/a/b";
  CHECK(link_of_remote("https://me:secret@host.example/a/b.git") == link);
  CHECK(link_of_remote("git@host.example:a/b.git") == link);
  CHECK(link_of_remote("ssh://git@host.example:22/a/b/") == link);
  CHECK(link_of_remote("/srv/git/b").empty());
  CHECK(link_of_remote("../b").empty());
  CHECK(link_of_remote("file:///srv/git/b").empty());
  CHECK(link_of_remote("").empty());
}

TEST_CASE("outside of a checkout a licence beside the file counts alone") {
  const Directory directory;
  const auto write = [&](const char* name, const std::string& text) {
    fs::create_directories((directory / name).parent_path());
    std::ofstream(directory / name) << text;
    return directory / name;
  };
  const auto file = write("a/problem.py", "x = 1\n");
  write("LICENSE", "MIT License");
  CHECK(checkout_of(file)["licence_file"].is_null());
  write("a/COPYING", "Mozilla Public License Version 2.0");
  const auto checkout = checkout_of(file);
  CHECK(checkout["licence_file"] == "COPYING");
  CHECK(checkout["licence"] == "MPL-2.0");
  CHECK(checkout["repo_name"].is_null());
  CHECK(checkout["sha"].is_null());
  write("a/COPYING", "Ask my lawyer.");
  CHECK(checkout_of(file)["licence_file"] == "COPYING");
  CHECK(checkout_of(file)["licence"].is_null());
  CHECK(checkout_of(directory / "none.py")["path"].is_null());
}

}  // namespace
}  // namespace weft
