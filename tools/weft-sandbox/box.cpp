#include "box.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "bubblewrap.hpp"
#include "inside.hpp"

namespace weft {
namespace {

constexpr int kInfoFd = 5;

/// A pipe whose ends have numbers above those that the child gives out.
struct Pipe {
  int reader = -1;
  int writer = -1;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return fail(ErrorCode::failed,
                std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  Pipe pipe;
  pipe.reader = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
  pipe.writer = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
  close(ends[0]);
  close(ends[1]);
  return pipe;
}

/// Which bubblewrap is started, with what in its environment.
struct Bubblewrap {
  std::string program;      ///< empty: there is none
  std::string environment;  ///< one variable, or nothing
};

/// In the child. Descriptors given out with dup2 survive exec, others do not.
[[noreturn]] void become_bubblewrap(Bubblewrap bubblewrap, char* const* words,
                                    const Pipe& ready, const Pipe& info,
                                    const Pipe& error_text, pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(125);  // it died before we asked
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // the command would inherit ours
  const int own_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  dup2(ready.writer, kReadyFd);
  dup2(own_stderr, kStderrFd);
  dup2(info.writer, kInfoFd);
  dup2(error_text.writer, STDERR_FILENO);
  // What is in its environment is seen in the box, as /proc/1/environ.
  std::string& variable = bubblewrap.environment;
  char* const environment[] = {variable.empty() ? nullptr : variable.data(),
                               nullptr};
  execve(bubblewrap.program.c_str(), words, environment);
  _exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

/// In the child. The environment is a box's, but for folders that only a box
/// has.
[[noreturn]] void become_command(const SandboxOrder& order, const Pipe& ready,
                                 const Pipe& info, const Pipe& error_text,
                                 pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(125);  // it died before we asked
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int own_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  dprintf(info.writer, "\"child-pid\": %d", getpid());
  dup2(ready.writer, kReadyFd);
  dup2(own_stderr, kStderrFd);
  dup2(error_text.writer, STDERR_FILENO);
  // Neither is for the command.
  fcntl(kReadyFd, F_SETFD, FD_CLOEXEC);
  fcntl(kStderrFd, F_SETFD, FD_CLOEXEC);
  setpgid(0, 0);
  const std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  clearenv();
  const std::string scratch = order.request.scratch;
  setenv("PATH", path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path.c_str(),
         1);
  setenv("HOME", scratch.c_str(), 1);
  setenv("TMPDIR", scratch.c_str(), 1);
  setenv("LANG", "C.UTF-8", 1);
  for (const auto& [name, value] : order.request.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  _exit(run_inside(order));
}

bool is_program(const std::string& file) {
  return access(file.c_str(), X_OK) == 0;
}

/// A bundle's own, with the libraries that lie around it, before the machine's:
/// a bundle is tried as a whole.
Bubblewrap find_bubblewrap() {
  namespace fs = std::filesystem;
  std::error_code unread;
  const fs::path self = fs::read_symlink("/proc/self/exe", unread);
  const fs::path folder = self.parent_path().parent_path() / "lib/weft";
  if (const std::string own = folder / "bwrap"; is_program(own)) {
    return {own, "LD_LIBRARY_PATH=" + folder.string()};
  }
  const char* set = std::getenv("PATH");
  const std::string path = set ? set : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, end - at) + "/bwrap";
    if (is_program(file)) return {file, ""};
    at = end + 1;
  }
  return {};
}

/// A child that becomes what the box runs.
Result<Box> start(
    const std::function<void(const Pipe& ready, const Pipe& info,
                             const Pipe& error_text, pid_t launcher)>& become) {
  const auto ready = make_pipe();
  const auto info = make_pipe();
  const auto error_text = make_pipe();
  if (!ready) return std::unexpected(ready.error());
  if (!info) return std::unexpected(info.error());
  if (!error_text) return std::unexpected(error_text.error());
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(*ready, *info, *error_text, launcher);
    _exit(125);
  }
  for (const auto& pipe : {ready, info, error_text}) close(pipe->writer);
  if (pid < 0) {
    return fail(ErrorCode::failed,
                std::string("cannot fork: ") + std::strerror(errno));
  }
  return Box{pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0)),
             ready->reader, info->reader, error_text->reader};
}

void kill_children() {
  const std::string self = std::to_string(getpid());
  std::ifstream list("/proc/self/task/" + self + "/children");
  pid_t child = 0;
  while (list >> child) kill(child, SIGKILL);
}

}  // namespace

Result<Box> build_box(const SandboxOrder& order) {
  const Bubblewrap bubblewrap = find_bubblewrap();
  if (bubblewrap.program.empty()) {
    return fail(ErrorCode::missing,
                "bubblewrap is not installed: untrusted code does not run "
                "without it; install it with 'apt-get install bubblewrap'");
  }
  const auto text = bubblewrap_words(order, kInfoFd);
  std::vector<char*> words;
  for (const auto& word : text)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return start([&](const Pipe& ready, const Pipe& info, const Pipe& error_text,
                   pid_t launcher) {
    become_bubblewrap(bubblewrap, words.data(), ready, info, error_text,
                      launcher);
  });
}

Result<Box> build_no_box(const SandboxOrder& order) {
  return start([&](const Pipe& ready, const Pipe& info, const Pipe& error_text,
                   pid_t launcher) {
    become_command(order, ready, info, error_text, launcher);
  });
}

void end_box(const Box& box) {
  kill(box.pid, SIGKILL);
  while (waitpid(box.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  // bubblewrap's own child dies with it, unless it had not yet asked to.
  // Without a box, each that dies may leave us its own children.
  do {
    kill_children();
  } while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
}

pid_t first_process(const Box& box) {
  const std::string note = read_pipe(box.info_fd);
  const std::string name = "\"child-pid\":";
  const auto at = note.find(name);
  if (at == std::string::npos) return -1;
  return static_cast<pid_t>(std::atoi(note.c_str() + at + name.size()));
}

std::string read_pipe(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t size = 0;
  while ((size = read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace weft
