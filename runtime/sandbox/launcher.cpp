#include "runtime/sandbox/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/sandbox/descendants.hpp"

namespace weft {
namespace {

constexpr int kStatusFd = 3;

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  int number() const { return number_; }
  void reset(int number = -1) {
    if (number_ >= 0) close(number_);
    number_ = number;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Fd reader;
  Fd writer;
};

/// Both ends get numbers above those that the launcher is given, or one dup2
/// would overwrite the source of the next.
bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe.reader.reset(fcntl(ends[0], F_DUPFD_CLOEXEC, kStatusFd + 1));
  pipe.writer.reset(fcntl(ends[1], F_DUPFD_CLOEXEC, kStatusFd + 1));
  close(ends[0]);
  close(ends[1]);
  return pipe.reader.number() >= 0 && pipe.writer.number() >= 0;
}

/// Reads one stream; what is above the limit is read, so that the writer does
/// not stop, and dropped. False at its end.
bool read_some(int fd, std::string& text, std::size_t limit) {
  char buffer[65536];
  const ssize_t size = read(fd, buffer, sizeof buffer);
  if (size < 0) return errno == EINTR;
  const auto capacity = limit - std::min(limit, text.size());
  text.append(buffer, std::min(capacity, static_cast<std::size_t>(size)));
  return size > 0;
}

using Streams = std::array<Pipe, 3>;  // out, err, status

void read_all(Streams& streams, LauncherRun& run, std::size_t limit) {
  std::string* texts[] = {&run.out, &run.err, &run.status};
  const std::size_t limits[] = {limit, limit, 4096};
  pollfd events[3];
  for (int i = 0; i < 3; ++i) {
    events[i] = {streams[i].reader.number(), POLLIN, 0};
  }
  for (int open = 3; open > 0;) {
    if (poll(events, 3, -1) < 0) continue;
    for (int i = 0; i < 3; ++i) {
      if (events[i].revents == 0) continue;
      if (read_some(events[i].fd, *texts[i], limits[i])) continue;
      events[i].fd = -1;
      --open;
    }
  }
}

/// Zero, or why not, as an errno.
int spawn(pid_t& pid, const std::string& program,
          const std::vector<std::string>& words, const Streams& streams) {
  std::vector<char*> pointers;
  for (const auto& word : words) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  // Nothing of weft's own environment goes along, not even to the launcher.
  const char* path = std::getenv("PATH");
  std::string path_entry = std::string("PATH=") + (path ? path : "");
  char* environment[] = {path ? path_entry.data() : nullptr, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (int i = 0; i < 3; ++i) {
    posix_spawn_file_actions_adddup2(&actions, streams[i].writer.number(),
                                     i + 1);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, kStatusFd + 1);
  const int error = start_child(pid, [&](pid_t* started) {
    return posix_spawn(started, program.c_str(), &actions, nullptr,
                       pointers.data(), environment);
  });
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<std::filesystem::path> find_sandbox_launcher() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path launcher;
  if (const char* set = std::getenv("WEFT_SANDBOX")) {
    launcher = fs::absolute(set, error);
  } else {
    launcher = fs::read_symlink("/proc/self/exe", error).parent_path() /
               "weft-sandbox";
  }
  if (access(launcher.c_str(), X_OK) == 0) return launcher;
  return fail(ErrorCode::missing,
              "no launcher " + launcher.string() +
                  ": build or install all of weft, or set WEFT_SANDBOX to "
                  "where weft-sandbox lies");
}

Result<LauncherRun> run_launcher(const std::filesystem::path& launcher,
                                 SandboxOrder order) {
  Streams streams;
  for (Pipe& pipe : streams) {
    if (!open_pipe(pipe)) {
      return fail(ErrorCode::failed,
                  std::string("cannot make a pipe: ") + std::strerror(errno));
    }
  }
  order.status_fd = kStatusFd;
  auto words = words_of(order);
  words.insert(words.begin(), launcher);
  pid_t pid = -1;
  if (const int error = spawn(pid, launcher, words, streams); error != 0) {
    return fail(ErrorCode::failed, "cannot start " + launcher.string() + ": " +
                                       std::strerror(error));
  }
  for (Pipe& pipe : streams) pipe.writer.reset();
  LauncherRun run;
  {
    // Not reaped yet, so the number cannot be somebody else's. The launcher's
    // death takes all that it started.
    const std::stop_callback kill_it(order.request.stop,
                                     [pid] { kill(pid, SIGKILL); });
    read_all(streams, run,
             static_cast<std::size_t>(order.request.limits.output_bytes));
  }
  wait_for_child(pid);
  // One that was killed has left its other half behind, which is at work.
  if (order.request.stop.stop_requested()) await_orphans(pid);
  return run;
}

}  // namespace weft
