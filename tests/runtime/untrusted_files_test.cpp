#include "runtime/store/untrusted_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// Folders within folders, deeper than the longest path.
void make_deep(const fs::path& folder, int depth) {
  int at = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < depth; ++i) {
    REQUIRE(mkdirat(at, "d", 0700) == 0);
    const int inner = openat(at, "d", O_RDONLY | O_DIRECTORY);
    close(at);
    at = inner;
  }
  REQUIRE(mkdirat(at, "last", 0000) == 0);
  close(at);
}

TEST_CASE("a folder is emptied, and stays") {
  const Directory folder;
  fs::create_directories(folder / "slot/of/a/candidate");
  std::ofstream(folder / "slot/of/file") << "large";
  fs::create_directory_symlink(folder / "slot/of", folder / "slot/link");
  fs::create_directories(folder / "other");
  std::ofstream(folder / "other/file") << "kept";
  fs::create_directory_symlink(folder / "other", folder / "slot/elsewhere");
  CHECK(empty_folder(folder / "slot"));
  CHECK(fs::is_empty(folder / "slot"));
  CHECK(fs::exists(folder / "other/file"));
  CHECK(empty_folder(folder / "not there"));
}

TEST_CASE("a link to a folder is removed, not emptied") {
  const Directory folder;
  fs::create_directories(folder / "other/inner");
  fs::create_directory_symlink(folder / "other", folder / "link");
  CHECK_FALSE(empty_folder(folder / "link"));
  CHECK(remove_tree(folder / "link"));
  CHECK_FALSE(fs::is_symlink(folder / "link"));
  CHECK(fs::exists(folder / "other/inner"));
}

TEST_CASE("a tree deeper than the longest path is removed") {
  const Directory folder;
  fs::create_directories(folder / "deep");
  make_deep(folder / "deep", 5000);
  CHECK(remove_tree(folder / "deep"));
  CHECK_FALSE(fs::exists(folder / "deep"));
}

TEST_CASE("folders that nobody may enter are removed") {
  const Directory folder;
  fs::create_directories(folder / "top/inner/more");
  std::ofstream(folder / "top/inner/file") << "x";
  REQUIRE(mkfifo((folder / "top/inner/pipe").c_str(), 0600) == 0);
  for (const char* each : {"top/inner/more", "top/inner", "top"}) {
    fs::permissions(folder / each, fs::perms::none);
  }
  CHECK(remove_tree(folder / "top"));
  CHECK_FALSE(fs::exists(folder / "top"));
}

TEST_CASE("a file beneath a folder is read") {
  const Directory folder;
  fs::create_directories(folder / "box/0");
  std::ofstream(folder / "box/0/graph.json") << "{}";
  CHECK(read_file_beneath(folder / "box", "0/graph.json", 2) == "{}");
}

TEST_CASE("no file beneath a folder is read through a link or by ..") {
  const Directory folder;
  fs::create_directories(folder / "box/1");
  fs::create_directories(folder / "own");
  std::ofstream(folder / "own/graph.json") << "secret";
  fs::create_symlink(folder / "own/graph.json", folder / "box/1/graph.json");
  fs::create_directory_symlink(folder / "own", folder / "box/0");
  for (const char* file :
       {"0/graph.json", "1/graph.json", "../own/graph.json"}) {
    CAPTURE(file);
    CHECK_FALSE(read_file_beneath(folder / "box", file, 100));
  }
}

TEST_CASE("no pipe, folder, socket or too large file beneath is read") {
  const Directory folder;
  fs::create_directories(folder / "box/folder");
  REQUIRE(mkfifo((folder / "box/pipe").c_str(), 0600) == 0);
  std::ofstream(folder / "box/large") << "123";
  for (const char* file : {"folder", "pipe", "large", "not there"}) {
    CAPTURE(file);
    CHECK_FALSE(read_file_beneath(folder / "box", file, 2));
  }
}

}  // namespace
}  // namespace weft
