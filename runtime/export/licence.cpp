#include "runtime/export/licence.hpp"

#include <algorithm>
#include <cctype>

namespace weft {
namespace {

/// A notice stands at the head; a licence's own file names itself there.
constexpr std::size_t kHeadBytes = std::size_t{16} << 10;
constexpr std::size_t kCopyrightsMax = 8;
constexpr std::size_t kExpressionBytesMax = 200;

struct Licence {
  std::string_view words;  ///< lower case, one space between words
  const char* id;          ///< SPDX
};

/// The words that stand first in a text decide: the GPL's own text names the
/// LGPL and the AGPL further down. If two entries fit equally, the upper one
/// counts.
constexpr Licence kLicences[] = {
    {"gnu affero general public license version 3", "AGPL-3.0"},
    {"gnu lesser general public license version 3", "LGPL-3.0"},
    {"gnu lesser general public license version 2 1", "LGPL-2.1"},
    {"gnu general public license version 3", "GPL-3.0"},
    {"gnu general public license version 2", "GPL-2.0"},
    {"gnu general public license as published by the free software foundation "
     "either version 3",
     "GPL-3.0-or-later"},
    {"gnu general public license as published by the free software foundation "
     "either version 2",
     "GPL-2.0-or-later"},
    {"apache license version 2 0", "Apache-2.0"},
    {"mozilla public license version 2 0", "MPL-2.0"},
    {"boost software license version 1 0", "BSL-1.0"},
    {"bsd 3 clause", "BSD-3-Clause"},
    {"bsd 2 clause", "BSD-2-Clause"},
    {"redistribution and use in source and binary forms", "BSD"},
    {"mit license", "MIT"},
    {"permission is hereby granted free of charge to any person obtaining a "
     "copy",
     "MIT"},
    {"permission to use copy modify and or distribute this software for any "
     "purpose with or without fee is hereby granted provided that",
     "ISC"},
    {"permission to use copy modify and or distribute this software for any "
     "purpose with or without fee is hereby granted",
     "0BSD"},
    {"this is free and unencumbered software released into the public domain",
     "Unlicense"},
    {"cc0 1 0 universal", "CC0-1.0"},
    {"creative commons attribution 4 0 international", "CC-BY-4.0"}};

/// What BSD's licences of three clauses have and those of two lack.
constexpr std::string_view kThirdClause =
    "may be used to endorse or promote products derived from";

/// Comment marks, line breaks and punctuation become one space.
std::string plain_words(std::string_view text) {
  std::string words;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words += static_cast<char>(std::tolower(byte));
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  return words;
}

std::string_view trimmed(std::string_view text, std::string_view marks) {
  const auto begin = text.find_first_not_of(marks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(marks) - begin + 1);
}

/// The rest of the line after those words.
std::optional<std::string_view> rest_of_line(std::string_view text,
                                             std::string_view words) {
  const auto at = text.find(words);
  if (at == text.npos) return std::nullopt;
  const auto begin = at + words.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// Words, brackets and a few marks: nothing else is in an SPDX expression.
bool is_expression(std::string_view text) {
  return !text.empty() && text.size() <= kExpressionBytesMax &&
         std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view("-.+:() ").contains(c);
         });
}

}  // namespace

std::optional<std::string> licence_in(std::string_view text) {
  const std::string_view head = text.substr(0, kHeadBytes);
  if (const auto answer = rest_of_line(head, "SPDX-License-Identifier:")) {
    const auto expression = trimmed(*answer, " \t\r*/#\"'->");
    if (is_expression(expression)) return std::string(expression);
  }
  const std::string words = plain_words(head);
  auto first = words.npos;
  const Licence* found = nullptr;
  for (const Licence& licence : kLicences) {
    const auto at = words.find(licence.words);
    if (at < first) {
      first = at;
      found = &licence;
    }
  }
  if (!found) return std::nullopt;
  if (std::string_view(found->id) != "BSD") return found->id;
  return words.contains(kThirdClause) ? "BSD-3-Clause" : "BSD-2-Clause";
}

std::vector<std::string> copyrights_in(std::string_view text) {
  std::vector<std::string> found;
  std::string_view head = text.substr(0, kHeadBytes);
  while (!head.empty() && found.size() < kCopyrightsMax) {
    const auto end = head.find('\n');
    const auto line = trimmed(head.substr(0, end), " \t\r*/#\"'");
    if (line.starts_with("Copyright ") ||
        line.starts_with("SPDX-FileCopyrightText:")) {
      found.emplace_back(line);
    }
    head = end == head.npos ? "" : head.substr(end + 1);
  }
  return found;
}

}  // namespace weft
