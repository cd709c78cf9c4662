#include "runtime/store/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

TEST_CASE("a new run's folder is made, with those above it") {
  Directory folder;
  const auto run = value(RunDirectory::create(folder / "a/b"));
  CHECK(fs::is_directory(folder / "a/b"));
  CHECK(run.journal() == folder / "a/b/journal.db");
}

TEST_CASE("a folder that holds a run is not used for another") {
  Directory folder;
  store(folder / "journal.db", "");
  const auto run = RunDirectory::create(folder / "");
  REQUIRE(!run);
  CHECK(run.error().code == ErrorCode::wrong_input);
  CHECK(says(run, "holds a run already"));
}

TEST_CASE("a folder with a link where weft writes is no run directory") {
  for (const char* name :
       {"journal.db-lock", "journal.db-wal", "llm.db", "logs", "build",
        "logs/oracle-slot0.log", "build/deep/kernel.so"}) {
    INFO(name);
    Directory folder;
    store(folder / "victim", "mine");
    fs::create_directories((folder / "run" / name).parent_path());
    fs::create_symlink(folder / "victim", folder / "run" / name);
    CHECK(says(RunDirectory::create(folder / "run"), "remove it"));
    store(folder / "run/journal.db", "");
    CHECK(says(RunDirectory::open(folder / "run"), "remove it"));
    CHECK(load(folder / "victim") == "mine");
  }
}

TEST_CASE("a folder with a pipe where weft reads is no run directory") {
  Directory folder;
  store(folder / "journal.db", "");
  REQUIRE(mkfifo((folder / "journal.db-lock").c_str(), 0600) == 0);
  CHECK(says(RunDirectory::open(folder / ""), "remove it"));
}

TEST_CASE("a folder that cannot be made is missing") {
  Directory folder;
  store(folder / "file", "");
  const auto run = RunDirectory::create(folder / "file/run");
  REQUIRE(!run);
  CHECK(run.error().code == ErrorCode::missing);
}

TEST_CASE("a run is opened by its folder or by its journal") {
  Directory folder;
  store(folder / "journal.db", "");
  CHECK(value(RunDirectory::open(folder / "")).journal() ==
        value(RunDirectory::open(folder / "journal.db")).journal());
}

TEST_CASE("a folder without a journal is no run") {
  Directory folder;
  CHECK(says(RunDirectory::open(folder / ""), "it has no journal.db"));
  CHECK(says(RunDirectory::open(folder / "none"), "is no run directory"));
}

TEST_CASE("scratch space goes with its object") {
  Directory folder;
  const auto run = value(RunDirectory::create(folder / "run"));
  fs::path location;
  {
    const Scratch scratch = value(Scratch::make(run));
    location = scratch.folder();
    store(location / "file", "bytes");
    CHECK(fs::exists(location / "file"));
  }
  CHECK(!fs::exists(location));
}

namespace {

/// The number of a process that was, and is no more.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

std::string scratch_name(pid_t owner) {
  return "weft-" + std::to_string(owner) + "-scratch";
}

}  // namespace

TEST_CASE("scratch of dead owners is swept, with or without its lock") {
  Directory folder;
  const auto run = value(RunDirectory::create(folder / "run"));
  const fs::path parent = value(Scratch::make(run)).folder().parent_path();
  const fs::path dead = parent / scratch_name(dead_process());
  const fs::path unlocked = parent / scratch_name(dead_process());
  fs::create_directories(dead);
  fs::create_directories(unlocked);
  store(dead / "owner.lock", "");
  const Scratch scratch = value(Scratch::make(run));
  CHECK(!fs::exists(dead));
  CHECK(!fs::exists(unlocked));
}

TEST_CASE("scratch that is held, being made or foreign is not swept") {
  Directory folder;
  const auto run = value(RunDirectory::create(folder / "run"));
  const fs::path parent = value(Scratch::make(run)).folder().parent_path();
  // In another PID namespace a living owner's number may look dead.
  const fs::path held = parent / scratch_name(dead_process());
  const fs::path being_made = parent / scratch_name(getppid());
  const fs::path foreign = parent / "weft-test-foreign";
  for (const fs::path& location : {held, being_made, foreign}) {
    fs::create_directories(location);
  }
  store(held / "owner.lock", "");
  const int lock = open((held / "owner.lock").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(flock(lock, LOCK_EX | LOCK_NB) == 0);
  const Scratch scratch = value(Scratch::make(run));
  for (const fs::path& location : {held, being_made, foreign}) {
    CHECK(fs::exists(location));
    fs::remove_all(location);
  }
  close(lock);
}

TEST_CASE("a default folder is named after the problem and not there yet") {
  const fs::path folder = default_run_folder("some/where/softmax.py");
  CHECK(folder.parent_path() == "weft-runs");
  CHECK(folder.filename().string().starts_with("softmax-"));
  CHECK(!fs::exists(folder));
}

}  // namespace
}  // namespace weft
