// A log file that a child process writes into, and that has an end: a model
// that prints in each call must not fill the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "messages/result.hpp"

namespace weft {

/// Reads a pipe on a thread of its own, until every writer is gone or it is
/// destroyed.
class BoundedLog {
 public:
  /// Of the file. The beginning of what is printed is kept, and its last lines.
  static constexpr std::int64_t bytes_max = std::int64_t{8} << 20;
  static constexpr std::size_t tail_bytes = 4096;

  /// Appends to that file. failed: it cannot be written.
  static Result<std::unique_ptr<BoundedLog>> open(
      const std::filesystem::path& path);

  ~BoundedLog();
  BoundedLog(const BoundedLog&) = delete;
  BoundedLog& operator=(const BoundedLog&) = delete;

  /// What the child's standard error shall be.
  int writer() const;

  /// Once the child has it; else the end would never come.
  void close_writer();

  /// Waits until all that the writers wrote is in the file, at most so long.
  /// They must be dead, or it is the time that passes.
  void settle(std::int64_t wall_ms);

 private:
  struct State;
  explicit BoundedLog(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
