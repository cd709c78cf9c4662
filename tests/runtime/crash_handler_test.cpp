// A crash names the run and the event, in one line, and ends the process.
#include "runtime/host/crash_handler.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace weft {
namespace {

struct Ended {
  std::string text;  ///< what it wrote to stderr
  int signal = 0;    ///< that ended it
};

/// Runs that in a process of its own.
Ended crash(const std::function<void()>& body) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    install_crash_handler();
    body();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    ended.text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ended;
}

Envelope event(std::uint64_t seq) {
  Envelope envelope;
  envelope.seq = seq;
  envelope.type = "GraphCaptured";
  envelope.dst = "extractor";
  return envelope;
}

TEST_CASE("CrashHandler_NamesTheRunAndTheEvent") {
  const Ended ended = crash([] {
    set_crash_run("/some/run");
    const Envelope now = event(17);
    const CrashScope scope(now);
    raise(SIGSEGV);
  });
  CHECK(ended.signal == SIGSEGV);
  CHECK(ended.text ==
        "weft: internal error: SIGSEGV in event 17 (GraphCaptured to "
        "extractor), run /some/run; report this line. Continue the run with "
        "'weft resume /some/run'\n");
}

TEST_CASE("CrashHandler_NamesTheLastEventWhereNoneIsProcessed") {
  const Ended ended = crash([] {
    {
      const Envelope before = event(3);
      const CrashScope scope(before);
    }
    abort();
  });
  CHECK(ended.signal == SIGABRT);
  CHECK(ended.text == "weft: internal error: SIGABRT after event 3\n");
}

TEST_CASE("CrashHandler_ReturnsToTheOuterEvent") {
  const Ended ended = crash([] {
    const Envelope outer = event(1);
    const CrashScope scope(outer);
    {
      const Envelope inner = event(2);
      const CrashScope nested(inner);
    }
    raise(SIGFPE);
  });
  CHECK(ended.text.find("SIGFPE in event 1 ") != std::string::npos);
}

TEST_CASE("CrashHandler_NamesTheEventOfAnIndexOutsideAContainer") {
  const Ended ended = crash([] {
    const Envelope now = event(5);
    const CrashScope scope(now);
    std::vector<int> numbers(3);
    volatile std::size_t outside = numbers.size();
    numbers[outside] = 1;
  });
  CHECK(ended.signal == SIGABRT);
  CHECK(ended.text.find("SIGABRT in event 5 ") != std::string::npos);
}

}  // namespace
}  // namespace weft
