// The file beside a journal that keeps a second writer out, and remembers how
// far the first one came. The lock is the kernel's (flock), so it dies with
// the process that holds it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "messages/result.hpp"

namespace weft {

class JournalLock {
 public:
  /// wrong_input, at once, when another writer has the journal.
  static Result<JournalLock> take(const std::filesystem::path& journal);

  /// The seq that the last writer had committed; none when the file is not
  /// there or says nothing that can be understood.
  static std::optional<std::uint64_t> committed(
      const std::filesystem::path& journal);

  /// "journal.db" -> "journal.db-lock".
  static std::filesystem::path path_of(const std::filesystem::path& journal);

  JournalLock(JournalLock&& other) noexcept;
  JournalLock& operator=(JournalLock&&) = delete;
  ~JournalLock();

  /// Notes that everything up to `seq` is committed. Not synced itself: after
  /// a power cut an older note may be back, which claims less.
  void note(std::uint64_t seq);

 private:
  explicit JournalLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace weft
