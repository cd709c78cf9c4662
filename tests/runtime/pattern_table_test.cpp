#include "runtime/store/pattern_table.hpp"

#include <doctest/doctest.h>

#include "runtime/store/library.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

/// The tables as they were before there were patterns.
constexpr const char* kEarlierLibrary =
    "CREATE TABLE kernel(key TEXT PRIMARY KEY, signature TEXT, wanted TEXT, "
    "device TEXT, policy TEXT, format INTEGER, source TEXT, target TEXT, "
    "variant TEXT, origin TEXT, median_us REAL, p10_us REAL, p90_us REAL, "
    "runs INTEGER, over_eager REAL, over_eager_low REAL, over_eager_high REAL, "
    "over_compile REAL, over_compile_low REAL, over_compile_high REAL, "
    "floor_share REAL, outdone TEXT, kept_us INTEGER, used_us INTEGER, "
    "uses INTEGER, bytes INTEGER);"
    "CREATE TABLE made(key TEXT PRIMARY KEY, content BLOB, \"check\" TEXT, "
    "used_us INTEGER, bytes INTEGER);"
    "PRAGMA user_version = 1";

const std::vector<std::string> kSums = {"op:exp", "op:sum", "reduction"};

KernelKey key_of(const std::string& signature) {
  return {signature, "cpu", "a processor", "framework", kernel_format};
}

StoredKernel kernel(const std::string& text, double median_us = 5) {
  StoredKernel stored;
  stored.text = text;
  stored.kernel.target = "python";
  stored.kernel.origin = "llm";
  stored.kernel.candidate.median_us = median_us;
  return stored;
}

StoredPattern pattern(const std::string& text, double over_eager = 2,
                      std::vector<std::string> features = kSums,
                      const std::string& device = "a processor") {
  StoredPattern stored;
  stored.text = text;
  stored.pattern.type = "exp+sum";
  stored.pattern.inputs = "float32[8]";
  stored.pattern.device = device;
  stored.pattern.platform = "cpu";
  stored.pattern.features = std::move(features);
  stored.pattern.idea = "one pass";
  stored.pattern.over_eager = over_eager;
  stored.pattern.over_others = 1.5;
  stored.pattern.gain = 1.4;
  return stored;
}

struct PatternFolder : TestFolder {
  Library library(LibraryLimits limits = {}) {
    return Library(file, limits, [this] { return ++now_us; });
  }
  void keep(const std::string& name, const StoredPattern& won,
            LibraryLimits limits = {}) {
    const auto done = library(limits).keep(key_of(name), "", kernel(name), won);
    REQUIRE_MESSAGE(done.has_value(), done.error().message);
  }
  std::vector<StoredPattern> found(PatternQuery query = {"cpu", kSums, 9}) {
    auto patterns = library().similar(query, key_of("asks"));
    REQUIRE_MESSAGE(patterns.has_value(), patterns.error().message);
    return *patterns;
  }
  std::vector<std::string> texts(PatternQuery query = {"cpu", kSums, 9}) {
    std::vector<std::string> all;
    for (const StoredPattern& one : found(query)) all.push_back(one.text);
    return all;
  }
  void execute(const char* statement) {
    auto other =
        Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    REQUIRE(other.has_value());
    REQUIRE(other->execute(statement));
  }

  std::int64_t now_us = 0;
  fs::path file = path / "library.db";
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("subgraphs are as alike as what they share of all they have") {
  CHECK(similarity(kSums, kSums) == 1);
  CHECK(similarity({"a", "b"}, {"b", "c"}) == doctest::Approx(1.0 / 3));
  CHECK(similarity({"a"}, {"b"}) == 0);
  CHECK(similarity({}, {}) == 0);
}

TEST_CASE("a pattern is found again, whole") {
  PatternFolder folder;
  folder.keep("s", pattern("+ a line\n"));
  const auto found = folder.found();
  REQUIRE(found.size() == 1);
  CHECK(found.front().text == "+ a line\n");
  CHECK(found.front().pattern == pattern("").pattern);
}

TEST_CASE("the most similar come first, then the device's, then the fastest") {
  PatternFolder folder;
  folder.keep("a", pattern("alike", 2));
  folder.keep("b", pattern("faster", 3));
  folder.keep("c", pattern("elsewhere", 9, kSums, "another processor"));
  folder.keep("d", pattern("half", 9, {"op:amax", "op:sum", "reduction"}));
  folder.keep("e", pattern("unlike", 9, {"op:mm", "product"}));
  auto other = pattern("gpu", 9);
  other.pattern.platform = "gpu";
  folder.keep("f", other);
  CHECK(folder.texts() == Texts{"faster", "alike", "elsewhere", "half"});
  CHECK(folder.texts({"cpu", kSums, 1}) == Texts{"faster"});
  CHECK(folder.texts({"cpu", {}, 9}).empty());
  CHECK(
      folder.library().similar({"cpu", kSums, 9}, key_of("b"))->front().text ==
      "alike");
}

TEST_CASE("a library of before patterns keeps its kernels and gets them") {
  PatternFolder folder;
  folder.execute(kEarlierLibrary);
  folder.execute(
      "INSERT INTO kernel VALUES('k', 's', 'cpu', 'd', 'p', 2, 'text', 'cpu', "
      "'v', 'compiler', 5, 4, 6, 9, 2, 2, 2, 0, 0, 0, 0, '', 1, 1, 0, 4)");
  CHECK(folder.texts().empty());
  CHECK(folder.library().entries()->size() == 1);
  folder.keep("a", pattern("new"));
  CHECK(folder.texts() == Texts{"new"});
  CHECK(folder.library().entries()->size() == 2);
}

TEST_CASE("a library that cannot be written is read without its patterns") {
  PatternFolder folder;
  folder.execute(kEarlierLibrary);
  auto database = Database::open(folder.file, SQLITE_OPEN_READONLY);
  REQUIRE(database.has_value());
  const auto found =
      similar_patterns(*database, {"cpu", kSums, 9}, "k", "a processor", 1);
  REQUIRE(found.has_value());
  CHECK(found->empty());
  REQUIRE(erase_pattern(*database, "k"));
}

TEST_CASE("a pattern goes with its kernel") {
  PatternFolder folder;
  const Library library = folder.library();
  const auto stands = [&](const std::optional<StoredKernel>& best,
                          const std::string& judged) {
    folder.keep("s", pattern("won"));
    REQUIRE(library.keep(key_of("s"), judged, best));
    const bool is_there = !folder.texts().empty();
    REQUIRE(library.keep(key_of("s"), best ? best->text : "s", std::nullopt));
    return is_there;
  };
  CHECK(stands(kernel("s"), "s"));              // judged anew, and still best
  CHECK_FALSE(stands(kernel("other"), "s"));    // outdone
  CHECK_FALSE(stands(std::nullopt, "s"));       // wrong now
  CHECK_FALSE(stands(kernel("other", 1), ""));  // another run's is faster
  CHECK(stands(kernel("other", 9), ""));        // or slower
}

TEST_CASE("patterns have a limit of their own") {
  PatternFolder folder;
  const LibraryLimits limits{.patterns_bytes = 2'500};
  const std::string text(1'000, 'x');
  for (const char* name : {"a", "b", "c"}) {
    folder.keep(name, pattern(text + name), limits);
  }
  CHECK(folder.texts().size() == 2);
  CHECK(folder.library().entries()->size() == 3);
}

TEST_CASE("a row that is no pattern of weft's is passed over") {
  PatternFolder folder;
  folder.keep("a", pattern("long"));
  folder.execute("UPDATE pattern SET change = hex(zeroblob(900000))");
  CHECK(folder.texts().empty());
  folder.keep("b", pattern("right"));
  CHECK(folder.texts() == Texts{"right"});
  folder.execute("DROP TABLE pattern; CREATE TABLE pattern(other TEXT)");
  CHECK_FALSE(folder.library().similar({"cpu", kSums, 9}, key_of("asks")));
}
