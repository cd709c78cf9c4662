#include "tools/weft/attached_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/machine/stopwatch.hpp"
#include "runtime/sandbox/descendants.hpp"
#include "runtime/store/untrusted_files.hpp"
#include "tools/weft/end_of_program.hpp"

extern char** environ;

namespace weft {
namespace {

/// A command that is asked to stop has so long to remove its scratch folder.
constexpr std::int64_t kStopMs = 800;
/// A process that a kernel or a driver holds is not waited for any longer.
constexpr std::int64_t kKillMs = 5'000;
constexpr int kInterrupted = 130;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    sigaddset(&set, number);
  }
  return set;
}

/// The errno of a failed start, or 0. The command reads nothing: our standard
/// input is for us to watch.
int start(const std::vector<std::string>& words, pid_t& pid) {
  std::vector<char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = start_child(pid, [&](pid_t* started) {
    return posix_spawnp(started, pointers[0], &actions, &attributes,
                        pointers.data(), environ);
  });
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

/// What one wait for events saw.
struct Seen {
  bool is_closed = false;   ///< standard input
  bool is_stopped = false;  ///< by a signal
};

Seen look(int signals, int timeout_ms) {
  pollfd events[] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
  Seen seen;
  if (poll(events, 2, timeout_ms) <= 0) return seen;
  if (events[0].revents != 0) {
    char ignored[4096];
    const ssize_t size = read(STDIN_FILENO, ignored, sizeof ignored);
    seen.is_closed = size == 0 || (size < 0 && errno != EINTR);
  }
  if (events[1].revents != 0) {
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) == sizeof info) {
      seen.is_stopped = info.ssi_signo != SIGCHLD;
    }
  }
  return seen;
}

/// Takes the exit status of every child that has ended; the command's, once it
/// is there, goes to `code`.
void reap(pid_t command, int& code) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
    if (ended != command) continue;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

}  // namespace

Result<int> run_attached(const Attached& attached) {
  const sigset_t set = watched_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const int signals = signalfd(-1, &set, SFD_CLOEXEC);
  pid_t command = -1;
  if (const int error = start(attached.words, command); error != 0) {
    close(signals);
    return fail(ErrorCode::missing, "cannot start " + attached.words.front() +
                                        ": " + std::strerror(error));
  }
  // What the command starts before this inherits less, and that is no harm.
  const int own = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, static_cast<id_t>(command),
              own + attached.niceness);
  int code = -1;
  Seen seen;
  while (code < 0 && !seen.is_closed && !seen.is_stopped) {
    seen = look(signals, -1);
    reap(command, code);
  }
  const bool was_stopped = code < 0;
  if (was_stopped) {
    kill(command, SIGTERM);
    const Stopwatch watch;
    while (code < 0 && watch.elapsed_ms() < kStopMs) {
      pollfd event{signals, POLLIN, 0};
      if (poll(&event, 1, 20) > 0) {
        signalfd_siginfo info{};
        [[maybe_unused]] const auto size = read(signals, &info, sizeof info);
      }
      reap(command, code);
    }
  }
  end_all_started(0, kKillMs);
  close(signals);
  if (seen.is_closed && !attached.removed.empty()) {
    (void)remove_tree(attached.removed);
  }
  return was_stopped ? kInterrupted : code;
}

}  // namespace weft
