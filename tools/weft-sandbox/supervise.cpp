#include "supervise.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "box.hpp"
#include "inside.hpp"
#include "slot.hpp"
#include "tree_memory.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A box fills memory at most this fast (measured: 2-4 GB/s on two cores), so
// the time to the next look follows from what it has left.
constexpr std::int64_t kFillBytesPerMs = 8'000'000;
constexpr std::int64_t kLookSoonestMs = 2;
constexpr std::int64_t kLookLatestMs = 50;
constexpr milliseconds kScratchEvery{100};

constexpr const char* kOrphaned = "orphaned";

struct Ending {
  const char* word = "exited";
  int code = 0;       ///< exit code or signal number
  int exit_code = 0;  ///< the launcher's own
};

/// Looks whether the box stays within its limits.
class Watch {
 public:
  explicit Watch(const SandboxOrder& order) : order_(order) {
    const auto wall_ms = order.request.limits.wall_ms;
    if (wall_ms > 0) deadline_ = started_ + milliseconds(wall_ms);
  }

  void box_stands(const Box& box) {
    // The files in /tmp would count, which are the machine's.
    if (!order_.is_boxed) return;
    auto memory = TreeMemory::of(first_process(box));
    if (memory) memory_.emplace(std::move(*memory));
  }

  /// Nothing while all is well.
  std::optional<Ending> look() {
    const auto now = Clock::now();
    const SandboxLimits& limits = order_.request.limits;
    if (deadline_ && now >= *deadline_) {
      return Ending{"timed_out", 0, kExitTimedOut};
    }
    if (memory_) {
      used_bytes_ = memory_->used_bytes(limits.memory_bytes);
      if (used_bytes_ > limits.memory_bytes) {
        return Ending{"out_of_memory", 0, kExitOutOfMemory};
      }
    }
    if (now >= scratch_next_) {
      scratch_next_ = now + kScratchEvery;
      const auto& scratch = order_.request.scratch;
      const auto deleted = memory_ ? memory_->deleted_bytes(scratch) : 0;
      if (folder_bytes(scratch, limits.scratch_bytes) + deleted >
          limits.scratch_bytes) {
        return Ending{"signalled", SIGXFSZ, 128 + SIGXFSZ};
      }
    }
    return std::nullopt;
  }

  int next_look_ms() const {
    const auto left = order_.request.limits.memory_bytes - used_bytes_;
    auto wait =
        std::clamp(left / kFillBytesPerMs, kLookSoonestMs, kLookLatestMs);
    if (deadline_) {
      const auto time =
          std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
      wait = std::clamp<std::int64_t>(time.count(), 0, wait);
    }
    return static_cast<int>(wait);
  }

 private:
  const SandboxOrder& order_;
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> deadline_;
  Clock::time_point scratch_next_ = started_ + kScratchEvery;
  std::optional<TreeMemory> memory_;
  std::int64_t used_bytes_ = 0;
};

/// Waits for the end or makes one. `said` collects what comes on ready_fd.
std::optional<Ending> watch_over(const Box& box, Watch& watch, int death_fd,
                                 std::string& text) {
  pollfd events[] = {{box.pid_fd, POLLIN, 0},
                     {box.ready_fd, POLLIN, 0},
                     {death_fd, POLLIN, 0}};
  while (true) {
    poll(events, 3, watch.next_look_ms());
    if (events[1].revents != 0) {
      text += read_pipe(box.ready_fd);
      if (text.starts_with(kStarted)) watch.box_stands(box);
      events[1].fd = -1;  // heard: what else comes is read at the end
    }
    if (events[0].revents != 0) return std::nullopt;
    if (events[2].revents != 0) return Ending{kOrphaned, 0, kExitNotStarted};
    if (auto ending = watch.look()) return ending;
  }
}

Ending ending_of(const Box& box) {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(box.pid), &info, WEXITED | WNOWAIT);
  int code = info.si_status;
  if (info.si_code != CLD_EXITED) code += 128;
  // bubblewrap, like a shell, says 128 + n for a command that signal n ended.
  const bool signalled = code > 128 && code - 128 < NSIG;
  return signalled ? Ending{"signalled", code - 128, code}
                   : Ending{"exited", code, code};
}

void tell(const SandboxOrder& order, const std::string& words) {
  if (order.status_fd < 0) return;
  [[maybe_unused]] auto written =
      write(order.status_fd, words.data(), words.size());
}

int report_not_started(const SandboxOrder& order, const Error& error) {
  const char* word = error.code == ErrorCode::missing ? "missing" : "failed";
  tell(order, std::string(word) + " " + error.message);
  if (order.status_fd < 0) {
    const std::string line = "weft-sandbox: " + error.message + "\n";
    [[maybe_unused]] auto written =
        write(STDERR_FILENO, line.data(), line.size());
  }
  return kExitNotStarted;
}

Error why_no_box(const std::string& error_text) {
  // Trying again helps where memory or processes were short, but not where
  // the machine forbids namespaces.
  const bool forbidden = error_text.find("namespace") != std::string::npos ||
                         error_text.find("uid map") != std::string::npos;
  return {
      forbidden ? ErrorCode::missing : ErrorCode::failed,
      "the sandbox could not be built: " +
          (error_text.empty() ? std::string("bubblewrap gave no reason")
                              : error_text.substr(0, error_text.find('\n'))) +
          " (docs/explanation/security.md says what the machine must allow)"};
}

void die_with_parent(int signal, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(kExitNotStarted);  // it died before we asked
}

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

/// The inner process, for the outer one's signal handler.
volatile pid_t forward_to = -1;

/// Readable once the launcher's outer process has died or was asked to end.
int open_death_notice(pid_t outer) {
  const sigset_t notice = end_signals();
  sigprocmask(SIG_BLOCK, &notice, nullptr);
  const int fd = signalfd(-1, &notice, SFD_CLOEXEC);
  die_with_parent(SIGTERM, outer);
  return fd;
}

Result<void> prepare(SandboxOrder& order) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  order.uid = order.is_boxed ? slot_uid() : -1;
  if (order.uid < 0) return {};
  return give_folder(order.request.scratch, order.uid);
}

/// The inner process: does the work.
int keep_box(SandboxOrder order, int death_fd) {
  if (auto ready = prepare(order); !ready) {
    return report_not_started(order, ready.error());
  }
  Watch watch(order);
  const auto box = order.is_boxed ? build_box(order) : build_no_box(order);
  if (!box) return report_not_started(order, box.error());
  std::string text;
  auto ending = watch_over(*box, watch, death_fd, text);
  if (!ending) ending = ending_of(*box);
  end_box(*box);
  if (ending->word == kOrphaned) return ending->exit_code;  // nobody listens
  text += read_pipe(box->ready_fd);
  const bool stood = text.starts_with(kStarted);
  if (!stood && ending->exit_code != kExitTimedOut) {
    const std::string error_text = read_pipe(box->error_fd);
    return report_not_started(order, text.empty()
                                         ? why_no_box(error_text)
                                         : Error{ErrorCode::failed, text});
  }
  if (stood && text.size() > 1) {
    return report_not_started(order, {ErrorCode::failed, text.substr(1)});
  }
  tell(order, std::string(ending->word) + " " + std::to_string(ending->code));
  return ending->exit_code;
}

}  // namespace

int supervise(const SandboxOrder& order) {
  die_with_parent(SIGKILL, getppid());
  setpgid(0, 0);  // Ctrl-C in the terminal is for weft to act upon
  // Two processes, so that one is left to clear away when the other is killed:
  // a bubblewrap whose parent dies while it builds would stay for ever.
  const pid_t outer = getpid();
  const sigset_t end = end_signals();
  sigprocmask(SIG_BLOCK, &end, nullptr);
  const pid_t keeper = fork();
  if (keeper == 0) {
    setpgid(0, 0);  // who kills the outer process kills its group
    const int death_fd = open_death_notice(outer);
    _exit(keep_box(order, death_fd));
  }
  // Asked to end, this waits until the box is gone.
  forward_to = keeper;
  signal(SIGTERM, [](int number) {
    if (forward_to > 0) kill(forward_to, number);
  });
  sigprocmask(SIG_UNBLOCK, &end, nullptr);
  int status = 0;
  while (keeper > 0 && waitpid(keeper, &status, 0) < 0 && errno == EINTR) {
  }
  return keeper > 0 && WIFEXITED(status) ? WEXITSTATUS(status)
                                         : kExitNotStarted;
}

}  // namespace weft
