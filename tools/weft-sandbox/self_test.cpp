#include "self_test.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

namespace weft {
namespace {

void say(const char* name, bool on, const std::string& seen) {
  std::printf("%s\t%s\t%s\n", name, on ? "on" : "off", seen.c_str());
}

/// One value of /proc/self/status.
std::string status_field(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(name + ":")) return line.substr(name.size() + 2);
  }
  return {};
}

void try_network() {
  // Line 1 and 2 are headings; a fresh network namespace has `lo` alone.
  std::ifstream devices("/proc/net/dev");
  std::string line, others;
  for (int number = 1; std::getline(devices, line); ++number) {
    if (number <= 2) continue;
    const auto name = line.substr(line.find_first_not_of(' '),
                                  line.find(':') - line.find_first_not_of(' '));
    if (name != "lo") others += (others.empty() ? "" : ", ") + name;
  }
  say("network namespace", others.empty(),
      others.empty() ? "" : "sees the devices " + others);
}

void try_processes() {
  // Process 1 (bubblewrap), perhaps its child, and this: small numbers.
  const bool alone = getpid() < 10;
  say("pid namespace", alone,
      alone ? "" : "process number " + std::to_string(getpid()));
}

void try_files() {
  for (const char* path : {"/weft-test", "/usr/weft-test", "/dev/weft-test",
                           "/proc/sys/kernel/core_pattern"}) {
    if (open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0) continue;
    return say("read-only system", false, std::string("could write ") + path);
  }
  const bool hidden =
      access("/etc/shadow", F_OK) != 0 && access("/etc/passwd", F_OK) != 0;
  say("read-only system", hidden, hidden ? "" : "sees the machine's /etc");
}

void try_calls() {
  const bool filtered = status_field("Seccomp") == "2";
  const bool refused = unshare(CLONE_NEWUSER) != 0 && errno == EPERM &&
                       socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM;
  say("seccomp", filtered && refused,
      filtered && refused ? "" : "system calls are not filtered");
}

void try_user() {
  const bool plain =
      geteuid() != 0 && status_field("CapEff") == "0000000000000000";
  say("unprivileged user", plain,
      plain ? "" : "runs as user " + std::to_string(geteuid()));
}

void try_limits() {
  rlimit processes{};
  getrlimit(RLIMIT_NPROC, &processes);
  int started = 0;
  bool refused = false;
  for (; started < 64 && !refused; ++started) {
    const pid_t pid = fork();
    if (pid == 0) pause();
    refused = pid < 0;
  }
  say("process limit", refused, refused ? "" : "64 processes were started");
}

}  // namespace

int self_test() {
  try_network();
  try_processes();
  try_files();
  try_calls();
  try_user();
  try_limits();
  const bool stored = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
  say("no new privileges", stored, stored ? "" : "setuid programs would work");
  std::fflush(stdout);
  return 0;
}

}  // namespace weft
