#include "runtime/journal/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace weft {
namespace {

struct Note {
  std::int64_t pid = 0;
  std::uint64_t seq = 0;
};

// Fixed widths: each note overwrites all of the one before.
constexpr char kWrite[] = "pid %10" PRId64 "\nseq %20" PRIu64 "\n";
constexpr char kRead[] = "pid %10" SCNd64 "\nseq %20" SCNu64;

std::optional<Note> read_note(int fd) {
  std::array<char, 64> text{};
  if (::pread(fd, text.data(), text.size() - 1, 0) <= 0) return {};
  Note note;
  if (std::sscanf(text.data(), kRead, &note.pid, &note.seq) != 2) return {};
  return note;
}

std::unexpected<Error> refuse(const std::filesystem::path& journal, int fd) {
  const auto holder = read_note(fd);
  return fail(ErrorCode::wrong_input,
              journal.string() + " is in use by " +
                  (holder ? "process " + std::to_string(holder->pid)
                          : std::string("another process")) +
                  ": wait until it ends, or stop it");
}

}  // namespace

std::filesystem::path JournalLock::path_of(
    const std::filesystem::path& journal) {
  return journal.string() + "-lock";
}

Result<JournalLock> JournalLock::take(const std::filesystem::path& journal) {
  const auto path = path_of(journal);
  // Close on exec, or a sandboxed child would hold the lock after our death.
  // Who made the folder may have put a link or a pipe there.
  const int fd =
      ::open(path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) {
    return fail(ErrorCode::wrong_input,
                "cannot open " + path.string() + ": " + std::strerror(errno) +
                    ": choose a directory that you may write to");
  }
  JournalLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return refuse(journal, fd);
  return fail(ErrorCode::wrong_input,
              "cannot lock " + path.string() + ": " + std::strerror(errno) +
                  ": choose a directory on a local disk");
}

std::optional<std::uint64_t> JournalLock::committed(
    const std::filesystem::path& journal) {
  const int fd = ::open(path_of(journal).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {};
  const auto note = read_note(fd);
  ::close(fd);
  if (!note) return {};
  return note->seq;
}

JournalLock::JournalLock(JournalLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

JournalLock::~JournalLock() {
  if (fd_ >= 0) ::close(fd_);
}

void JournalLock::note(std::uint64_t seq) {
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), kWrite,
                                   static_cast<std::int64_t>(::getpid()), seq);
  // When it can't be written, the old note stands and claims less.
  const ssize_t written =
      ::pwrite(fd_, text.data(), static_cast<std::size_t>(length), 0);
  (void)written;
}

}  // namespace weft
