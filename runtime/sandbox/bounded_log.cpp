#include "runtime/sandbox/bounded_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace weft {
namespace {

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // a full disk: a log is no reason to stop
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void close_one(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

}  // namespace

struct BoundedLog::State {
  int file = -1;
  int reader = -1;
  int writer = -1;
  int stop = -1;          // an event: the thread shall end
  std::int64_t left = 0;  // bytes that the file may still get
  std::int64_t gone = 0;  // bytes that were left out
  std::string tail;       // the last of what was left out
  std::mutex mutex;
  std::condition_variable ended;
  bool is_done = false;  // guarded by mutex
  std::thread thread;

  ~State() {
    for (int* entry : {&file, &reader, &writer, &stop}) close_one(*entry);
  }

  void take(std::string_view bytes) {
    const auto fits = static_cast<std::size_t>(
        std::clamp<std::int64_t>(left, 0, std::ssize(bytes)));
    write_all(file, bytes.substr(0, fits));
    left -= static_cast<std::int64_t>(fits);
    bytes.remove_prefix(fits);
    gone += std::ssize(bytes);
    tail.append(bytes);
    if (tail.size() > 2 * tail_bytes) {
      tail.erase(0, tail.size() - tail_bytes);
    }
  }

  /// Says what is not there, and gives the end of it.
  void finish() {
    if (gone == 0) return;
    if (tail.size() > tail_bytes) tail.erase(0, tail.size() - tail_bytes);
    write_all(file, "\nweft: " + std::to_string(gone) +
                        " bytes more were printed; the last are:\n" + tail +
                        "\n");
    gone = 0;
    tail.clear();
  }

  void run() {
    std::string buffer(std::size_t{1} << 16, '\0');
    while (true) {
      pollfd both[] = {{reader, POLLIN, 0}, {stop, POLLIN, 0}};
      if (::poll(both, 2, -1) < 0 && errno != EINTR) break;
      if (both[0].revents != 0) {
        const ssize_t got = ::read(reader, buffer.data(), buffer.size());
        if (got == 0) break;
        if (got > 0) take({buffer.data(), static_cast<std::size_t>(got)});
      } else if (both[1].revents != 0) {
        break;  // nothing more to read just now
      }
    }
    finish();
    const std::lock_guard lock(mutex);
    is_done = true;
    ended.notify_all();
  }
};

Result<std::unique_ptr<BoundedLog>> BoundedLog::open(
    const std::filesystem::path& path) {
  auto state = std::make_unique<State>();
  state->file =
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (state->file < 0) {
    return fail(ErrorCode::failed, "cannot write the log " + path.string() +
                                       ": " + std::strerror(errno));
  }
  struct stat about{};
  const bool is_known = ::fstat(state->file, &about) == 0;
  state->left = std::max<std::int64_t>(
      0, bytes_max - (is_known ? static_cast<std::int64_t>(about.st_size) : 0));
  int ends[2];
  state->stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state->stop < 0 || ::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::failed, "no pipe for the log " + path.string());
  }
  state->reader = ends[0];
  state->writer = ends[1];
  ::fcntl(state->reader, F_SETFL, O_NONBLOCK);
  State& running = *state;
  state->thread = std::thread([&running] { running.run(); });
  return std::unique_ptr<BoundedLog>(new BoundedLog(std::move(state)));
}

BoundedLog::BoundedLog(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

BoundedLog::~BoundedLog() {
  const std::uint64_t increment = 1;
  write_all(state_->stop,
            {reinterpret_cast<const char*>(&increment), sizeof increment});
  state_->thread.join();
}

int BoundedLog::writer() const { return state_->writer; }

void BoundedLog::close_writer() { close_one(state_->writer); }

void BoundedLog::settle(std::int64_t wall_ms) {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait_for(lock, std::chrono::milliseconds(wall_ms),
                         [&] { return state_->is_done; });
}

}  // namespace weft
