#include "tools/weft/interrupt.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

#include "tools/weft/end_of_program.hpp"

namespace weft {
namespace {

/// The longest wait after a second signal.
constexpr std::int64_t kEndMs = 3'000;

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // The terminal or the ssh that it was started by is gone; nohup ignores that.
  struct sigaction now{};
  sigaction(SIGHUP, nullptr, &now);
  if (now.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // Who reads its lines may go; a run goes on.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::jthread([this](std::stop_token done) {
    const sigset_t signals = watched();
    const timespec tick{0, 100'000'000};
    for (int seen = 0; !done.stop_requested();) {
      if (sigtimedwait(&signals, nullptr, &tick) < 0) continue;
      if (++seen > 1) {
        end_all_started(0, kEndMs);
        _exit(130);
      }
      source_.request_stop();
    }
  });
}

Interrupt::~Interrupt() = default;

}  // namespace weft
