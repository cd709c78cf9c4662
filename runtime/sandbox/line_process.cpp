#include "runtime/sandbox/line_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/sandbox/descendants.hpp"
#include "runtime/sandbox/secret_variables.hpp"

extern char** environ;

namespace weft {
namespace {

/// So long at most until a dead process's last words are in its log.
constexpr std::int64_t kLastWordsMs = 1'000;
/// So often it looks whether the answer is still wanted.
constexpr std::int64_t kLookMs = 100;
/// A reply is one JSON object; more than this is no reply.
constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

std::int64_t monotonic_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch())
      .count();
}

struct SecretNames {
  std::mutex mutex;
  std::set<std::string> names;
};

SecretNames& secret_names() {
  static SecretNames known;
  return known;
}

bool is_secret(const std::string& variable) {
  static constexpr std::string_view words[] = {
      "KEY",        "APIKEY",      "TOKEN", "SECRET", "PASSWORD",  "PASSWD",
      "CREDENTIAL", "CREDENTIALS", "PAT",   "COOKIE", "PASSPHRASE"};
  {
    SecretNames& known = secret_names();
    const std::lock_guard lock(known.mutex);
    if (known.names.contains(variable)) return true;
  }
  for (std::size_t from = 0; from <= variable.size();) {
    const auto end = std::min(variable.find('_', from), variable.size());
    std::string word = variable.substr(from, end - from);
    std::ranges::transform(word, word.begin(),
                           [](unsigned char c) { return std::toupper(c); });
    if (std::ranges::find(words, word) != std::end(words)) return true;
    from = end + 1;
  }
  return false;
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = text.substr(0, equals);
    if (!is_secret(name)) merged[name] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) merged[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : merged) {
    entries.push_back(name + "=" + value);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

int wait_for(int descriptor, short events, std::int64_t deadline_ms) {
  pollfd item{descriptor, events, 0};
  const auto left = deadline_ms - monotonic_ms();
  return poll(&item, 1, left > 0 ? static_cast<int>(left) : 0);
}

}  // namespace

void keep_from_processes(const std::string& variable) {
  SecretNames& known = secret_names();
  const std::lock_guard lock(known.mutex);
  known.names.insert(variable);
}

Result<LineProcess> LineProcess::start(const LineCommand& command) {
  std::unique_ptr<BoundedLog> log;
  if (!command.log.empty()) {
    auto opened = BoundedLog::open(command.log);
    if (!opened) return std::unexpected(opened.error());
    log = std::move(*opened);
  }
  int to[2];
  int from[2];
  // A socket, not a pipe: writing to one whose reader died can be told not to
  // raise SIGPIPE, which would kill weft.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) != 0) {
    return fail(ErrorCode::failed, "no socket for a child process");
  }
  if (pipe2(from, O_CLOEXEC) != 0) {
    close(to[0]);
    close(to[1]);
    return fail(ErrorCode::failed, "no pipe for a child process");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  if (log) {
    posix_spawn_file_actions_adddup2(&actions, log->writer(), STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  auto words = command.words;
  auto environment = merged_environment(command.environment);
  pid_t pid = -1;
  const int error = start_child(pid, [&](pid_t* started) {
    return posix_spawnp(started, words[0].c_str(), &actions, &attributes,
                        pointers(words).data(), pointers(environment).data());
  });
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(to[0]);
  close(from[1]);
  if (log) log->close_writer();
  if (error != 0) {
    close(to[1]);
    close(from[0]);
    return fail(ErrorCode::missing,
                "cannot start " + words[0] + ": " + std::strerror(error));
  }
  return LineProcess(pid, to[1], from[0], std::move(log));
}

LineProcess::LineProcess(LineProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      log_(std::move(other.log_)),
      pending_(std::move(other.pending_)) {}

LineProcess::~LineProcess() {
  if (pid_ < 0) return;
  kill();
  close(to_);
  close(from_);
  wait_for_child(pid_);
  await_orphans(pid_);
}

void LineProcess::kill() {
  // Not reaped before the destructor: the number cannot be somebody else's.
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

Result<std::string> LineProcess::ask(std::string_view line,
                                     std::int64_t wall_ms,
                                     const std::stop_token& unwanted,
                                     std::int64_t patience_ms) {
  const std::int64_t deadline_ms = monotonic_ms() + wall_ms;
  std::string bytes(line);
  bytes += '\n';
  if (const auto sent = send(bytes, deadline_ms); !sent) {
    kill();
    return std::unexpected(sent.error());
  }
  auto reply = receive(deadline_ms, unwanted, patience_ms);
  if (reply) return reply;
  kill();
  if (log_) log_->settle(kLastWordsMs);
  return reply;
}

Result<void> LineProcess::send(std::string_view bytes,
                               std::int64_t deadline_ms) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno == EAGAIN) {
      if (wait_for(to_, POLLOUT, deadline_ms) == 0) {
        return fail(ErrorCode::failed, "the process takes no request");
      }
    } else if (errno != EINTR) {
      return fail(ErrorCode::failed, "the process has ended");
    }
  }
  return {};
}

Result<std::string> LineProcess::receive(std::int64_t deadline_ms,
                                         const std::stop_token& unwanted,
                                         std::int64_t patience_ms) {
  char buffer[65536];
  bool is_wanted = true;
  while (true) {
    const auto newline = pending_.find('\n');
    if (newline != std::string::npos) {
      std::string line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      return line;
    }
    if (pending_.size() > kLineBytesMax) {
      return fail(ErrorCode::failed, "the process's answer has no end");
    }
    if (is_wanted && unwanted.stop_requested()) {
      is_wanted = false;
      deadline_ms = std::min(deadline_ms, monotonic_ms() + patience_ms);
    }
    const bool looks = is_wanted && unwanted.stop_possible();
    const std::int64_t until_ms =
        looks ? std::min(deadline_ms, monotonic_ms() + kLookMs) : deadline_ms;
    const int ready = wait_for(from_, POLLIN, until_ms);
    if (ready == 0 && until_ms < deadline_ms) continue;
    if (ready == 0) {
      return fail(ErrorCode::failed, "no answer within the time limit");
    }
    if (ready < 0) continue;  // a signal
    const ssize_t got = read(from_, buffer, sizeof buffer);
    if (got == 0) return fail(ErrorCode::failed, "the process has ended");
    if (got < 0 && errno != EINTR) {
      return fail(ErrorCode::failed, "the process cannot be heard");
    }
    if (got > 0) pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace weft
