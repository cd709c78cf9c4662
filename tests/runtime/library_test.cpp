#include "runtime/store/library.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "runtime/machine/files.hpp"
#include "runtime/store/llm_store.hpp"
#include "runtime/store/sha256.hpp"
#include "tests/runtime/environment_fixture.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

struct LibraryFolder : TestFolder {
  /// Its clock counts its own calls.
  Library open(LibraryLimits limits = {}) {
    return Library(path / "deep" / "library.db", limits,
                   [this] { return ++now_us; });
  }
  std::int64_t now_us = 0;
};

KernelKey key_of(const std::string& signature) {
  return {signature, "cpu", "a processor", "framework", kernel_format};
}

StoredKernel kernel(const std::string& text, double median_us) {
  StoredKernel stored;
  stored.text = text;
  stored.kernel.target = "cpu";
  stored.kernel.variant = "vec16";
  stored.kernel.origin = "compiler";
  stored.kernel.candidate.median_us = median_us;
  stored.kernel.candidate.p90_us = median_us * 1.1;
  stored.kernel.candidate.runs = 9;
  stored.kernel.over_eager = {2, 1.9, 2.1};
  stored.kernel.over_compile = {1.5, 1.4, 1.6};
  stored.kernel.floor_share = 0.5;
  stored.kernel.superseded = {"a", "b"};
  return stored;
}

std::string text_at(const Library& library, const KernelKey& key) {
  const auto found = library.find(key);
  REQUIRE_MESSAGE(found.has_value(), found.error().message);
  return *found ? (*found)->text : "";
}

void execute_in(const fs::path& file, const char* statement) {
  auto other = Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  REQUIRE(other.has_value());
  REQUIRE(other->execute(statement));
}

void keep(const Library& library, const KernelKey& key,
          const std::string& judged, const std::optional<StoredKernel>& best) {
  const auto stored = library.keep(key, judged, best);
  REQUIRE_MESSAGE(stored.has_value(), stored.error().message);
}

}  // namespace

TEST_CASE("what is kept is found again, whole") {
  LibraryFolder folder;
  keep(folder.open(), key_of("s"), "", kernel("text", 5));
  const auto found = folder.open().find(key_of("s"));
  REQUIRE((found && *found));
  CHECK((*found)->text == "text");
  CHECK((*found)->kernel == kernel("text", 5).kernel);
}

TEST_CASE("all kernels are listed, and listing makes no library") {
  LibraryFolder folder;
  CHECK_FALSE(folder.open().entries());
  CHECK_FALSE(fs::exists(folder.path / "deep"));
  keep(folder.open(), key_of("s"), "", kernel("text", 5));
  keep(folder.open(), key_of("t"), "", kernel("other", 6));
  keep(folder.open(), key_of("t"), "other", kernel("other", 6));
  const auto entries = folder.open().entries();
  REQUIRE(entries.has_value());
  REQUIRE(entries->size() == 2);
  const auto& first = entries->front().key.signature == "t" ? entries->front()
                                                            : entries->back();
  CHECK(first.key == key_of("t"));
  CHECK(first.stored.text == "other");
  CHECK(first.stored.kernel == kernel("other", 6).kernel);
  CHECK(first.stored_us == 2);
  CHECK(first.uses == 1);
}

TEST_CASE("every part of the key tells kernels apart") {
  LibraryFolder folder;
  const Library library = folder.open();
  keep(library, key_of("s"), "", kernel("text", 5));
  for (int part = 0; part < 5; ++part) {
    KernelKey other = key_of("s");
    if (part == 0) other.signature = "t";
    if (part == 1) other.target = "triton";
    if (part == 2) other.device = "another processor";
    if (part == 3) other.policy = "strict";
    if (part == 4) ++other.format;
    CHECK(text_at(library, other) == "");
  }
  CHECK(text_at(library, key_of("s")) == "text");
}

TEST_CASE("a faster kernel replaces, a slower one does not") {
  LibraryFolder folder;
  const Library library = folder.open();
  keep(library, key_of("s"), "", kernel("first", 5));
  keep(library, key_of("s"), "", kernel("slower", 6));
  CHECK(text_at(library, key_of("s")) == "first");
  keep(library, key_of("s"), "", kernel("faster", 4));
  CHECK(text_at(library, key_of("s")) == "faster");
}

TEST_CASE("what was judged anew gives way, and only that") {
  LibraryFolder folder;
  const Library library = folder.open();
  keep(library, key_of("s"), "", kernel("first", 5));
  // Both timed now: what was remembered of the first no longer counts.
  keep(library, key_of("s"), "first", kernel("second", 6));
  CHECK(text_at(library, key_of("s")) == "second");
  // Another run has replaced it since that one looked.
  keep(library, key_of("s"), "first", std::nullopt);
  CHECK(text_at(library, key_of("s")) == "second");
  keep(library, key_of("s"), "second", std::nullopt);
  CHECK(text_at(library, key_of("s")) == "");
}

TEST_CASE("a kernel that was judged anew is remembered as it is now") {
  LibraryFolder folder;
  const Library library = folder.open();
  keep(library, key_of("s"), "", kernel("text", 5));
  keep(library, key_of("s"), "text", kernel("text", 7));
  const auto found = library.find(key_of("s"));
  REQUIRE((found && *found));
  CHECK((*found)->kernel.candidate.median_us == 7);
}

TEST_CASE("kernels that were not used for longest go first") {
  LibraryFolder folder;
  const Library library = folder.open({.kernels_bytes = 2'500});
  const std::string text(1'000, 'x');
  keep(library, key_of("a"), "", kernel(text, 5));
  keep(library, key_of("b"), "", kernel(text, 5));
  keep(library, key_of("a"), text, kernel(text, 5));  // used again
  keep(library, key_of("c"), "", kernel(text, 5));
  CHECK(text_at(library, key_of("a")) == text);
  CHECK(text_at(library, key_of("b")) == "");
  CHECK(text_at(library, key_of("c")) == text);
}

TEST_CASE("what is made is kept by its name, within its own limit") {
  LibraryFolder folder;
  const Library library = folder.open({.made_bytes = 10});
  REQUIRE(library.store_artefact("a", "123456"));
  CHECK(library.find_artefact("a").value() == "123456");
  REQUIRE(library.store_artefact("b", "123456"));
  CHECK(library.find_artefact("a").value() == std::nullopt);
  CHECK(library.find_artefact("b").value() == "123456");
}

TEST_CASE("many processes' worth of writers lose nothing") {
  LibraryFolder folder;
  constexpr int writers = 8;
  constexpr int rounds = 20;
  std::vector<int> failures(writers);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i) {
      threads.emplace_back([&, i] {
        // Each call opens the file anew, as another process would.
        const Library library(folder.path / "library.db");
        for (int round = 0; round < rounds; ++round) {
          const std::string name =
              std::to_string(i) + "-" + std::to_string(round);
          failures[i] += !library.keep(key_of(name), "", kernel(name, 5));
          failures[i] += !library.keep(key_of("shared"), "",
                                       kernel(name, 1000 - 10 * round - i));
          failures[i] += !library.find(key_of(name));
        }
      });
    }
  }
  CHECK(failures == std::vector<int>(writers));
  const Library library(folder.path / "library.db");
  for (int i = 0; i < writers; ++i) {
    const std::string name = std::to_string(i) + "-7";
    CHECK(text_at(library, key_of(name)) == name);
  }
  CHECK(text_at(library, key_of("shared")) == "7-19");  // the fastest
}

TEST_CASE("a damaged file is an error that says what to do") {
  LibraryFolder folder;
  const fs::path file = folder.path / "library.db";
  write_file(file, std::string(8'192, 'x'));
  const auto found = Library(file).find(key_of("s"));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().message.contains("move it away"));
  CHECK_FALSE(Library(file).keep(key_of("s"), "", kernel("text", 5)));
}

TEST_CASE("a library of another layout is left alone") {
  LibraryFolder folder;
  const fs::path file = folder.path / "library.db";
  execute_in(file, "PRAGMA user_version = 99");
  const auto found = Library(file).find(key_of("s"));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().message.contains("another weft"));
}

TEST_CASE("a database of somebody else's is left alone") {
  LibraryFolder folder;
  const fs::path file = folder.path / "notes.db";
  execute_in(file, "CREATE TABLE note(text)");
  const auto before = read_file(file);
  REQUIRE(before.has_value());
  const auto found = Library(file).find(key_of("s"));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().message.contains("was never one"));
  CHECK_FALSE(Library(file).keep(key_of("s"), "", kernel("text", 5)));
  CHECK_FALSE(LlmCache::open(file));
  CHECK(read_file(file).value() == *before);
}

TEST_CASE("what SQLite says of a library names it once, and no run to go on") {
  LibraryFolder folder;
  const fs::path file = folder.path / "library.db";
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);  // reads fail, as a disk's may
  const auto found = Library(file).keep(key_of("s"), "", kernel("text", 5));
  REQUIRE_FALSE(found.has_value());
  const std::string& text = found.error().message;
  CHECK_MESSAGE(text.find(file.string()) == text.rfind(file.string()), text);
  CHECK_MESSAGE(text.contains("check the disk"), text);
  CHECK_MESSAGE(!text.contains("then go on"), text);
}

TEST_CASE("a row that is too long for a message is no kernel") {
  LibraryFolder folder;
  const fs::path file = folder.path / "library.db";
  keep(Library(file), key_of("s"), "", kernel("text", 5));
  execute_in(
      file,
      "UPDATE kernel SET variant = hex(zeroblob(9000000)), median_us = 1");
  CHECK(Library(file).find(key_of("s")).value() == std::nullopt);
  CHECK(Library(file).entries().value().empty());
  keep(Library(file), key_of("s"), "", kernel("another", 5));
  CHECK(text_at(Library(file), key_of("s")) == "another");
}

TEST_CASE("a library that cannot be made is an error, and none is one too") {
  LibraryFolder folder;
  write_file(folder.path / "no-folder", "");
  CHECK_FALSE(Library(folder.path / "no-folder/library.db").find(key_of("s")));
  CHECK_FALSE(Library("").find(key_of("s")));
}

TEST_CASE("made bytes that this user did not keep for that key are not given") {
  LibraryFolder folder;
  const fs::path file = folder.path / "library.db";
  const Variable home("XDG_CACHE_HOME", (folder.path / "own").string());
  REQUIRE(Library(file).store_artefact("a", "right"));
  REQUIRE(Library(file).store_artefact("b", "also right"));
  REQUIRE(Library(file).find_artefact("a").value() == "right");
  SUBCASE("others than those that were kept") {
    execute_in(file, "UPDATE made SET content = 'wrong'");
  }
  SUBCASE("with the hash of these bytes, which anybody can make") {
    const std::string change =
        "UPDATE made SET content = 'wrong', \"check\" = '" +
        content_hash("wrong") + "'";
    execute_in(file, change.c_str());
  }
  SUBCASE("those of another key") {
    execute_in(file,
               "UPDATE made SET (content, \"check\") = (SELECT content, "
               "\"check\" FROM made WHERE key = 'b') WHERE key = 'a'");
  }
  SUBCASE("those of another user") {
    const Variable other("XDG_CACHE_HOME", (folder.path / "other").string());
    CHECK(Library(file).find_artefact("a").value() == std::nullopt);
    return;
  }
  CHECK(Library(file).find_artefact("a").value() == std::nullopt);
}
