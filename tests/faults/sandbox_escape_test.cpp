// Programs that try to get out of the sandbox, to take more than their share,
// or to outlive their job. None may.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/sandbox/sandbox.hpp"
#include "tests/sandbox_fixture.hpp"

using namespace weft;
using End = SandboxReport::End;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// What a shell cannot do. Each attempt prints "done" where it worked.
constexpr const char* kAttempts = R"(
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static void result(const char* what, bool worked) {
  if (worked) std::printf("%s: done\n", what);
}

static void network(int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET}) {
    for (int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW}) {
      int fd = socket(family, type, 0);
      result("socket", fd >= 0);
      if (fd >= 0) result("connect", connect(fd, (sockaddr*)&to, sizeof to) == 0);
    }
  }
  int pair[2];
  result("foreign pair", socketpair(AF_INET, SOCK_STREAM, 0, pair) == 0);
  result("io_uring", syscall(SYS_io_uring_setup, 1, nullptr) >= 0);
}

static void calls() {
  result("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  result("unshare", unshare(CLONE_NEWUSER) == 0);
  result("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0);
  result("mount", mount("none", "/tmp", "tmpfs", 0, nullptr) == 0);
  result("chroot", chroot("/tmp") == 0);
  result("bpf", syscall(SYS_bpf, 0, nullptr, 0) >= 0);
  result("keyctl", syscall(SYS_keyctl, 0, -3, 0) >= 0);
  result("memfd", syscall(SYS_memfd_create, "m", 0) >= 0);
  result("shm", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0);
  result("setuid", setuid(0) == 0);
  result("setns", setns(open("/proc/1/ns/mnt", O_RDONLY), 0) == 0);
  result("root of 1", openat(open("/proc/1/root", O_PATH), "etc/shadow", O_RDONLY) >= 0);
  result("kernel memory", open("/proc/kcore", O_RDONLY) >= 0);
  result("disk", open("/dev/vda", O_RDONLY) >= 0 || open("/dev/sda", O_RDONLY) >= 0);
  result("kernel setting", open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0);
}

static void eat(std::size_t bytes, int sharing) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  std::memset(at, 1, bytes);
}

int main(int, char** words) {
  const std::string what = words[1];
  const long n = std::atol(words[2]);
  if (what == "network") network(n);
  if (what == "calls") calls();
  if (what == "eat") { eat(n << 20, MAP_PRIVATE); pause(); }
  if (what == "eat-shared") { eat(n << 20, MAP_SHARED); pause(); }
  if (what == "eat-tree") {
    for (int i = 0; i < 8; ++i) if (fork() == 0) { eat(n << 20, MAP_PRIVATE); pause(); }
    pause();
  }
  if (what == "share-after-fork") {
    eat(n << 20, MAP_PRIVATE);
    for (int i = 0; i < 4; ++i) if (fork() == 0) { usleep(100000); _exit(0); }
    usleep(150000);
    std::printf("finished");
  }
  if (what == "bomb") while (true) fork();
  if (what == "deaf") {
    for (int number = 1; number < 65; ++number) signal(number, SIG_IGN);
    while (true) pause();
  }
  if (what == "daemon") {
    if (fork() == 0) { setsid(); if (fork() == 0) {
      for (int fd = 0; fd < 3; ++fd) close(fd);
      while (true) pause();
    } _exit(0); }
    std::printf("left");
  }
  if (what == "murder") { kill(-1, SIGKILL); kill(n, SIGKILL); kill(getppid(), SIGKILL); }
}
)";

/// The attempts, compiled once, in the sandbox of course.
const std::filesystem::path& attempts() {
  static const TestFolder folder("/tmp");
  static const std::filesystem::path program = folder.path / "attempts";
  if (!std::filesystem::exists(program)) {
    std::filesystem::permissions(folder.path, std::filesystem::perms(0755));
    write_file(folder.path / "a.cpp", kAttempts);
    const auto report = run_well(
        quick_request(folder.path, {"g++", "-w", "a.cpp", "-o", "attempts"}));
    REQUIRE_MESSAGE(report.code == 0, report.err);
  }
  return program;
}

/// One attempt; `mark` is a word of its command line and of all its children.
SandboxRequest attempt(const TestFolder& scratch, const std::string& what,
                       long number, const std::string& mark) {
  auto request = quick_request(
      scratch.path, {attempts(), what, std::to_string(number), mark});
  request.readable = {attempts()};
  request.limits.wall_ms = 5'000;
  request.limits.memory_bytes = 64 * kMiB;
  request.limits.processes = 16;
  return request;
}

SandboxReport shell(const TestFolder& scratch, const std::string& script) {
  return run_well(quick_request(scratch.path, {"sh", "-c", script}));
}

/// Listens on the loopback device; accepts nobody by itself.
struct Listener {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
  Listener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd, 4) == 0);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~Listener() { close(fd); }
  bool was_called() const {
    pollfd event{fd, POLLIN, 0};
    return poll(&event, 1, 0) > 0;
  }
};

/// A process of the test's own, killed at the latest with this.
struct Outsider {
  pid_t pid = -1;
  explicit Outsider(std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    REQUIRE(posix_spawnp(&pid, pointers[0], nullptr, nullptr, pointers.data(),
                         environ) == 0);
  }
  ~Outsider() { end(); }
  Outsider(const Outsider&) = delete;
  Outsider& operator=(const Outsider&) = delete;
  void end() {
    if (pid < 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = -1;
  }
};

/// Waits for what the kernel does soon after a death, as long as it must.
bool soon(const auto& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a file outside cannot be read") {
  const TestFolder scratch, outside;
  write_file(outside.path / "journal.db", "every secret");
  write_file(scratch.path / "list", "/etc/shadow\n/etc/passwd\n" +
                                        (outside.path / "journal.db").string() +
                                        "\n");
  const auto report =
      shell(scratch,
            "while read -r f; do cat \"$f\"; cat \"/proc/1/root$f\"; done "
            "<list; ln -s /etc/shadow link; cat link");
  CHECK(report.out == "");
}

TEST_CASE("the home folder of who runs weft cannot be read") {
  const char* home = std::getenv("HOME");
  if (!home || !std::filesystem::is_directory(home)) return;
  const TestFolder scratch;
  const auto report =
      shell(scratch, std::string("ls -A ") + home + " /root /home");
  CHECK(report.out == "");
}

TEST_CASE("nothing outside scratch can be written") {
  const TestFolder scratch, outside;
  const auto target = outside.path / "planted";
  shell(scratch, "echo x >" + target.string() +
                     "; for d in / /usr /usr/bin /etc /dev /lib /sys "
                     "/var/tmp /opt; do echo x >$d/weft-planted; done; "
                     "echo x >/tmp/weft-planted; echo y >/.weft-sandbox");
  CHECK_FALSE(std::filesystem::exists(target));
  for (const char* folder : {"/", "/usr", "/usr/bin", "/etc", "/dev", "/lib",
                             "/var/tmp", "/opt", "/tmp"}) {
    CHECK_FALSE(std::filesystem::exists(std::filesystem::path(folder) /
                                        "weft-planted"));
  }
}

TEST_CASE("a link planted in scratch does not turn its owner's files over") {
  const TestFolder scratch, outside;
  write_file(outside.path / "file", "mine");
  std::filesystem::create_symlink(outside.path / "file", scratch.path / "link");
  const auto report = shell(scratch, "cat link; echo theirs >link");
  CHECK(report.out == "");
  CHECK(file_text(outside.path / "file") == "mine");
}

TEST_CASE("no socket opens and a listener on this machine is not reached") {
  const Listener listener;
  const TestFolder scratch;
  const auto report = run_well(attempt(scratch, "network", listener.port, "-"));
  CHECK(report.end == End::exited);
  CHECK(report.out == "");
  CHECK_FALSE(listener.was_called());
}

TEST_CASE("system calls that reach for the machine are refused") {
  const TestFolder scratch;
  const auto report = run_well(attempt(scratch, "calls", 0, "-"));
  CHECK(report.end == End::exited);
  CHECK(report.out == "");
}

TEST_CASE("processes outside cannot be killed") {
  const TestFolder scratch;
  const Outsider victim({"sleep", "100"});
  run_well(attempt(scratch, "murder", victim.pid, "-"));
  CHECK(waitpid(victim.pid, nullptr, WNOHANG) == 0);
}

TEST_CASE("a fork bomb stays small and ends with its time") {
  const TestFolder scratch;
  const auto mark = unique_mark("bomb");
  auto request = attempt(scratch, "bomb", 0, mark);
  request.limits.wall_ms = 300;
  int most = 0;
  std::jthread counter([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      most = std::max(most, processes_with(mark));
    }
  });
  const auto report = run_well(request);
  counter.request_stop();
  counter.join();
  CHECK(report.end == End::timed_out);
  // The launcher's two, bubblewrap's two, and what the limit allows.
  CHECK(most <= request.limits.processes + 4);
  CHECK(most > 4);
  CHECK(processes_with(mark) == 0);
}

TEST_CASE("one process that eats memory is stopped") {
  for (const char* how : {"eat", "eat-shared"}) {
    const TestFolder scratch;
    const auto mark = unique_mark("eat");
    const auto report = run_well(attempt(scratch, how, 100, mark));
    CHECK(report.end == End::out_of_memory);
    CHECK(processes_with(mark) == 0);
  }
}

TEST_CASE("a tree whose every process is below the limit is stopped") {
  const TestFolder scratch;
  const auto mark = unique_mark("tree");
  const auto report = run_well(attempt(scratch, "eat-tree", 16, mark));
  CHECK(report.end == End::out_of_memory);
  CHECK(processes_with(mark) == 0);
}

TEST_CASE("memory files count as memory") {
  const TestFolder scratch;
  for (const char* folder : {"/tmp", "/dev/shm"}) {
    auto request = quick_request(
        scratch.path,
        {"sh", "-c",
         std::string("for i in 1 2 3 4; do head -c 20m /dev/zero >") + folder +
             "/$i; done; sleep 5"});
    request.limits.memory_bytes = 40 * kMiB;
    const auto report = run_well(request);
    // Either the folder is full first or the watch sees it.
    CHECK(report.end == End::out_of_memory);
  }
}

TEST_CASE("memory that forked processes share is counted once") {
  const TestFolder scratch;
  const auto report = run_well(attempt(scratch, "share-after-fork", 40, "-"));
  CHECK(report.end == End::exited);
  CHECK(report.out == "finished");
}

TEST_CASE("a single allocation far above the limit fails at once") {
  const TestFolder scratch;
  const auto report = run_well(attempt(scratch, "eat", 100'000, "-"));
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGABRT);
}

TEST_CASE("sleeping for ever ends with the wall time") {
  const TestFolder scratch;
  auto request = quick_request(scratch.path, {"sleep", "1000"});
  request.limits.wall_ms = 200;
  const auto report = run_well(request);
  CHECK(report.end == End::timed_out);
  CHECK(report.wall_ms >= 200);
  CHECK(report.wall_ms < 2'000);
}

TEST_CASE("computing for ever ends with the processor time") {
  const TestFolder scratch;
  auto request =
      quick_request(scratch.path, {"sh", "-c", "while :; do :; done"});
  request.limits.cpu_s = 1;
  const auto report = run_well(request);
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGKILL);
}

TEST_CASE("ignoring every signal does not help") {
  const TestFolder scratch;
  const auto mark = unique_mark("deaf");
  auto request = attempt(scratch, "deaf", 0, mark);
  request.limits.wall_ms = 200;
  CHECK(run_well(request).end == End::timed_out);
  CHECK(processes_with(mark) == 0);
}

TEST_CASE("a daemon goes when its starter ends") {
  const TestFolder scratch;
  const auto mark = unique_mark("daemon");
  const auto report = run_well(attempt(scratch, "daemon", 0, mark));
  CHECK(report.end == End::exited);
  CHECK(report.out == "left");
  CHECK(processes_with(mark) == 0);
}

TEST_CASE("one file cannot grow above its limit") {
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path, {"sh", "-c", "exec head -c 9000000 /dev/zero >big"});
  request.limits.file_bytes = kMiB;
  const auto report = run_well(request);
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGXFSZ);
  CHECK(std::filesystem::file_size(scratch.path / "big") <=
        static_cast<std::uintmax_t>(kMiB));
}

TEST_CASE("many files cannot fill the disk") {
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path, {"sh", "-c",
                     "i=0; while :; do i=$((i+1)); head -c 1m /dev/zero >$i; "
                     "sleep 0.01; done"});
  request.limits.scratch_bytes = 8 * kMiB;
  const auto report = run_well(request);
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGXFSZ);
}

TEST_CASE("files without a name cannot fill the disk") {
  const TestFolder scratch;
  auto request = quick_request(
      scratch.path, {"bash", "-c",
                     "for i in $(seq 10 200); do eval \"exec $i>x\"; rm x; "
                     "head -c 1m /dev/zero >&$i; sleep 0.01; done"});
  request.limits.scratch_bytes = 8 * kMiB;
  const auto report = run_well(request);
  CHECK(report.end == End::signalled);
  CHECK(report.code == SIGXFSZ);
}

TEST_CASE("empty files in a memory folder count as memory") {
  const TestFolder scratch;
  auto request =
      quick_request(scratch.path, {"sh", "-c",
                                   "cd /dev/shm; i=0; while :; do i=$((i+1)); "
                                   "touch $i-$(seq -s ' '$i- 500); done"});
  request.limits.memory_bytes = 32 * kMiB;
  const auto report = run_well(request);
  CHECK(report.end == End::out_of_memory);
}

TEST_CASE("a flood of output fills neither memory nor pipe") {
  const TestFolder scratch;
  auto request = quick_request(scratch.path, {"sh", "-c", "yes & yes >&2"});
  request.limits.wall_ms = 300;
  request.limits.output_bytes = 10'000;
  const auto report = run_well(request);
  CHECK(report.end == End::timed_out);
  CHECK(report.out.size() == 10'000);
  CHECK(report.err.size() == 10'000);
}

TEST_CASE("a forged status is only output") {
  const TestFolder scratch;
  const auto report = shell(
      scratch, "echo 'exited 0'; echo 'exited 0' >&3; echo S >&4; exit 9");
  CHECK(report.end == End::exited);
  CHECK(report.code != 0);
}

TEST_CASE("killing the parent of a prefixed command leaves nothing behind") {
  const TestFolder scratch;
  const auto mark = unique_mark("orphan");
  auto words = sandbox_prefix(attempt(scratch, "daemon", 0, mark));
  for (const auto& word :
       {std::string("sh"), std::string("-c"),
        attempts().string() + " daemon 0 " + mark + "; exec sleep 100"}) {
    words.push_back(word);
  }
  std::string line;
  for (const auto& word : words) line += "'" + word + "' ";
  // The shell in between is the parent that is killed.
  Outsider parent({"sh", "-c", line + "& wait; echo " + mark});
  CHECK(soon([&] { return processes_with("daemon 0 " + mark) >= 4; }));
  parent.end();
  CHECK(soon([&] { return processes_with(mark) == 0; }));
}
