// Weft waits for the processes that a killed process leaves behind. Each case
// runs in a forked process: it adopts orphans, and starts nothing after the
// end.
#include "runtime/sandbox/descendants.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "runtime/sandbox/line_process.hpp"
#include "tests/sandbox_fixture.hpp"

namespace weft {
namespace {

/// The bits of what did not hold in `body`, run in a child process. It must not
/// use doctest, whose output is the parent's.
int failures_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    adopt_orphans();
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A shell's process group is killed; the child that it answers with is in
/// another one.
std::string pid_of_child(LineProcess& process) {
  const auto line = process.ask("", 60'000);
  return line ? *line : "";
}

LineProcess shell(const std::string& script) {
  return std::move(*LineProcess::start({{"sh", "-c", script}, {}, {}}));
}

bool is_there(const std::string& pid) {
  return std::filesystem::exists("/proc/" + pid);
}

/// Ignores SIGTERM, with a child that does so, too.
constexpr const char* kStubborn =
    "setsid sh -c 'trap \"\" TERM; (sleep 1000; echo) & echo $$; sleep 1000; "
    "echo' & wait";

TEST_CASE("Descendants_EndWithTheirGrandchildren") {
  CHECK(failures_of([] {
          std::string left_behind;
          {
            auto process = shell(kStubborn);
            left_behind = pid_of_child(process);
          }
          const bool was_there = is_there(left_behind);
          const std::string told = end_descendants(50, 60'000);
          return (was_there ? 0 : 1) | (told.empty() ? 0 : 2) |
                 (is_there(left_behind) ? 4 : 0) |
                 (waitpid(-1, nullptr, WNOHANG) < 0 ? 0 : 8);
        }) == 0);
}

TEST_CASE("Descendants_ThatDoNotEndInTimeAreNamed") {
  CHECK(failures_of([] {
          std::string left_behind;
          {
            auto process = shell(kStubborn);
            left_behind = pid_of_child(process);
          }
          const std::string told = end_descendants(60'000, 30);
          const bool is_named = told.find(left_behind) != std::string::npos;
          return (is_named ? 0 : 1) |
                 (end_descendants(0, 60'000).empty() ? 0 : 2);
        }) == 0);
}

TEST_CASE("Descendants_AreNotStartedAfterTheEnd") {
  CHECK(failures_of([] {
          const bool is_empty = end_descendants(0, 60'000).empty();
          const auto process = LineProcess::start({{"cat"}, {}, {}});
          return (is_empty ? 0 : 1) | (process ? 2 : 0);
        }) == 0);
}

/// They are another program's, as after `helper & exec weft`.
TEST_CASE("Descendants_ThatWereThereBeforeAreSpared") {
  const pid_t shell_process = fork();
  if (shell_process == 0) {
    const pid_t helper = fork();
    if (helper == 0) {
      pause();
      _exit(0);
    }
    adopt_orphans();
    auto process = LineProcess::start({{"cat"}, {}, {}});
    const bool is_empty = end_descendants(0, 60'000).empty();
    const bool is_spared = waitpid(helper, nullptr, WNOHANG) == 0;
    kill(helper, SIGKILL);
    waitpid(helper, nullptr, 0);
    _exit((is_empty ? 0 : 1) | (is_spared ? 0 : 2));
  }
  int status = 0;
  waitpid(shell_process, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("LineProcess_ItsSandboxesHaveEndedWithIt") {
  const TestFolder scratch;
  const auto mark = unique_mark("box");
  auto request = quick_request(scratch.path, {});
  auto words = sandbox_prefix(request);
  // Memory to give back, and processes that do not end by themselves.
  words.insert(words.end(),
               {"sh", "-c",
                "trap '' TERM HUP; for i in 1 2 3 4 5 6 7 8; do "
                "(head -c 40m /dev/zero >/tmp/$i; sleep 1000; echo " +
                    mark + ") & done; sleep 0.5; echo there; wait"});
  std::string line;
  for (const auto& word : words) {
    std::string escaped;
    for (const char c : word) {
      if (c == '\'') {
        escaped += "'\\''";
      } else {
        escaped += c;
      }
    }
    line += "'" + escaped + "' ";
  }
  CHECK(failures_of([&] {
          std::string said;
          {
            auto process = shell("setsid " + line + "& wait");
            said = pid_of_child(process);
          }
          return (said == "there" ? 0 : 1) |
                 (processes_with(mark) == 0 ? 0 : 2);
        }) == 0);
}

}  // namespace
}  // namespace weft
