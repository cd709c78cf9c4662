#include "inside.hpp"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "seccomp_filter.hpp"

namespace weft {
namespace {

constexpr rlim_t kOpenFilesMax = 512;

std::unexpected<Error> refused(const std::string& what) {
  return fail(ErrorCode::failed,
              "cannot " + what + ": " + std::strerror(errno));
}

Result<void> limit(__rlimit_resource_t resource, std::int64_t value,
                   const char* what) {
  const rlimit both{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  if (setrlimit(resource, &both) != 0) {
    return refused(std::string("limit ") + what);
  }
  return {};
}

Result<void> set_limits(const SandboxRequest& request) {
  const SandboxLimits& limits = request.limits;
  // RLIMIT_DATA, not RLIMIT_AS: torch maps gigabytes of library text and
  // reserves arenas that it never touches. Twice the tree's limit: the watch
  // over the tree decides (and says "out of memory"); this only stops a single
  // wild allocation at once. CUDA maps as much as the device has, and more:
  // with a GPU there is the watch alone.
  const rlim_t data = request.gpu ? RLIM_INFINITY : 2 * limits.memory_bytes;
  for (auto done : {
           limit(RLIMIT_DATA, static_cast<std::int64_t>(data), "memory"),
           limit(RLIMIT_CPU, limits.cpu_s, "CPU time"),
           limit(RLIMIT_FSIZE, limits.file_bytes, "file size"),
           limit(RLIMIT_NOFILE, kOpenFilesMax, "open files"),
           limit(RLIMIT_CORE, 0, "core dumps"),
       }) {
    if (!done) return done;
  }
  return {};
}

Result<void> become(std::int64_t uid) {
  const auto id = static_cast<uid_t>(uid);
  if (setgroups(0, nullptr) != 0) return refused("leave all groups");
  if (setresgid(id, id, id) != 0) return refused("change the group");
  if (setresuid(id, id, id) != 0) return refused("change the user");
  return {};
}

/// Tells the kernel that our session is as nice as we are. Where each session
/// is a group of its own to the scheduler (sched(7), "The autogroup feature"),
/// a process is nice to those of its session alone, and bubblewrap gives us a
/// session. A kernel without such groups has no such file; one that is told
/// too often, by others than root, asks to be told again.
void be_nice_as_a_session(int niceness) {
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kPause{30};
  const int file = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const std::string text = std::to_string(niceness);
  for (int i = 0; i < kTries; ++i) {
    if (write(file, text.data(), text.size()) >= 0 || errno != EAGAIN) break;
    std::this_thread::sleep_for(kPause);
  }
  close(file);
}

Result<void> give_up_rights(const SandboxOrder& order) {
  const SandboxLimits& limits = order.request.limits;
  errno = 0;  // -1 may be the new niceness
  const int niceness = nice(limits.niceness);
  if (niceness == -1 && errno != 0) return refused("be nicer");
  if (niceness > 0) be_nice_as_a_session(niceness);
  if (auto done = set_limits(order.request); !done) return done;
  if (!order.is_boxed) return {};
  if (order.uid >= 0) {
    if (auto done = become(order.uid); !done) return done;
  }
  // After the change of user, since it is counted for each user; within a user
  // namespace the count begins at zero (Linux 5.14).
  if (auto done = limit(RLIMIT_NPROC, limits.processes, "processes"); !done) {
    return done;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return refused("forbid new privileges");
  }
  return load_seccomp_filter(order.request.gpu);
}

int complain(const std::string& message) {
  [[maybe_unused]] auto written =
      write(kReadyFd, message.data(), message.size());
  return 125;
}

}  // namespace

int run_inside(const SandboxOrder& order) {
  if (auto done = give_up_rights(order); !done) {
    return complain(done.error().message);
  }
  // Not bubblewrap's --chdir: as root it may not enter the command's folder.
  if (chdir(order.request.scratch.c_str()) != 0) {
    return complain("cannot enter " + order.request.scratch.string() + ": " +
                    std::strerror(errno));
  }
  if (dup2(kStderrFd, STDERR_FILENO) < 0) return complain("cannot set stderr");
  std::vector<char*> words;
  for (const auto& word : order.request.command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  complain(std::string(1, kStarted));
  // weft ignores it, which would be handed down: `yes | head` had no end.
  signal(SIGPIPE, SIG_DFL);
  execvp(words[0], words.data());
  return complain("cannot run '" + order.request.command[0] +
                  "': " + std::strerror(errno));
}

}  // namespace weft
