#include "inside.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

Result<void> give_up_rights(const SandboxOrder& order) {
  const SandboxLimits& limits = order.request.limits;
  errno = 0;  // -1 may be the new niceness
  if (nice(limits.niceness) == -1 && errno != 0) return refused("be nicer");
  if (auto done = set_limits(order.request); !done) return done;
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
  execvp(words[0], words.data());
  return complain("cannot run '" + order.request.command[0] +
                  "': " + std::strerror(errno));
}

}  // namespace weft
