#include "runtime/sandbox/descendants.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDescendantsLook{2};
constexpr std::int64_t kOrphansMs = 5'000;
/// The launcher's name, as the kernel shows it. It ends its sandbox and itself
/// when the process that started it has died.
constexpr const char* kLauncherName = "weft-sandbox";

std::int64_t elapsed_ms(Clock::time_point begin) {
  using namespace std::chrono;
  return duration_cast<milliseconds>(Clock::now() - begin).count();
}

struct Children {
  /// Locked from the start of a process until it is in `started`.
  std::mutex mutex;
  /// Processes that this one started, and waits for.
  std::set<pid_t> started;
  /// Whether all other children are adopted orphans.
  bool adopts = false;
  /// Whether no process may be started any more.
  bool has_ended = false;
};

Children& all_children() {
  static Children children;
  return children;
}

struct Process {
  pid_t pid = 0;
  pid_t group = 0;
  std::string name;
};

/// The process, if it still exists and is a child of this one.
std::optional<Process> child_at(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::ostringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  // "pid (name) state parent group …"; the name may have any characters.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream rest(text.substr(close + 1));
  std::string state;
  pid_t parent = 0;
  Process process;
  process.pid = std::atoi(text.c_str());
  process.name = text.substr(open + 1, close - open - 1);
  if (!(rest >> state >> parent >> process.group)) return std::nullopt;
  if (parent != getpid()) return std::nullopt;
  return process;
}

/// Our children, zombies included. A child that stays one during the scan is in
/// the list.
std::vector<Process> children_now() {
  namespace fs = std::filesystem;
  std::vector<Process> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator("/proc", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    if (auto process = child_at(entry->path())) {
      found.push_back(std::move(*process));
    }
  }
  return found;
}

/// Takes the status of orphans that have ended; whether one of the others is in
/// the group or a sandbox. The mutex is held: if another thread took an
/// orphan's status meanwhile, this could miss what that orphan leaves to us.
bool look_at_orphans(const Children& children, pid_t group) {
  bool is_left = false;
  for (const Process& one : children_now()) {
    if (children.started.contains(one.pid)) continue;
    const bool is_alive = waitpid(one.pid, nullptr, WNOHANG) == 0;
    // The children of a dead one may have been looked at before this process
    // adopted them.
    is_left =
        is_left || !is_alive || one.group == group || one.name == kLauncherName;
  }
  return is_left;
}

/// Takes the status of every child of weft that has ended. False: none is left.
/// The mutex is held.
bool reap_all(Children& children) {
  if (children.adopts) {
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    return ended == 0;
  }
  std::erase_if(children.started,
                [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  return !children.started.empty();
}

std::string sentence_of(const std::vector<Process>& left, std::int64_t ms) {
  std::string text = "after " + std::to_string(ms) +
                     " ms of ending what weft started, these still run:";
  for (const Process& process : left) {
    text += " " + std::to_string(process.pid) + " (" + process.name + ")";
  }
  return text;
}

}  // namespace

void adopt_orphans() {
  siginfo_t info{};
  const int found = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
  if (found == 0 || errno != ECHILD) return;
  Children& children = all_children();
  const std::lock_guard lock(children.mutex);
  children.adopts = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

int start_child(pid_t& pid, const std::function<int(pid_t*)>& spawn) {
  Children& children = all_children();
  const std::lock_guard lock(children.mutex);
  if (children.has_ended) return ECANCELED;
  const int error = spawn(&pid);
  if (error == 0) children.started.insert(pid);
  return error;
}

int wait_for_child(pid_t pid) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid);
  while (waitid(P_PID, id, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  // Until the status is taken, no other child can get its number.
  Children& children = all_children();
  const std::lock_guard lock(children.mutex);
  int status = 0;
  waitpid(pid, &status, WNOHANG);
  children.started.erase(pid);
  return status;
}

void await_orphans(pid_t group) {
  Children& children = all_children();
  const Clock::time_point begin = Clock::now();
  while (true) {
    {
      const std::lock_guard lock(children.mutex);
      if (!children.adopts || children.has_ended) return;
      if (!look_at_orphans(children, group)) return;
    }
    if (elapsed_ms(begin) >= kOrphansMs) return;
    std::this_thread::sleep_for(kDescendantsLook);
  }
}

std::string end_descendants(std::int64_t grace_ms, std::int64_t wall_ms) {
  Children& children = all_children();
  const std::lock_guard lock(children.mutex);
  children.has_ended = true;
  const Clock::time_point begin = Clock::now();
  std::set<pid_t> asked;
  // An ended process hands its children to us before its status can be taken:
  // without children there are no descendants.
  while (reap_all(children)) {
    auto left = children_now();
    std::erase_if(left, [&](const Process& one) {
      return !children.adopts && !children.started.contains(one.pid);
    });
    if (elapsed_ms(begin) >= wall_ms) return sentence_of(left, wall_ms);
    const bool is_over = elapsed_ms(begin) >= grace_ms;
    for (const Process& one : left) {
      if (is_over) {
        kill(one.pid, SIGKILL);
      } else if (asked.insert(one.pid).second) {
        kill(one.pid, SIGTERM);
      }
    }
    std::this_thread::sleep_for(kDescendantsLook);
  }
  return {};
}

}  // namespace weft
