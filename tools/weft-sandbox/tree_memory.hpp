// How much memory all processes of a box hold together. The kernel's own limit
// (RLIMIT_*) is for one process at a time, and a cgroup is not to be had
// everywhere, so the launcher looks often and kills.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft {

class TreeMemory {
 public:
  /// `first`: the box's process 1, as seen from outside, once the box stands.
  /// Nothing where the kernel does not let us look.
  static std::optional<TreeMemory> of(pid_t first);

  TreeMemory(TreeMemory&& other) noexcept;
  TreeMemory& operator=(TreeMemory&&) = delete;
  ~TreeMemory();

  /// Private and shared memory of all processes and the files in the box's
  /// memory folders. Exact if above `limit`, else never too low. A file in a
  /// memory folder that is also mapped counts twice.
  std::int64_t used_bytes(std::int64_t limit) const;

  /// Files on the file system of `folder` that have no name any more but are
  /// open in a process of the box. They are in no folder that can be walked.
  std::int64_t deleted_bytes(const std::filesystem::path& folder) const;

 private:
  TreeMemory(int root_fd, int proc_fd) : root_fd_(root_fd), proc_fd_(proc_fd) {}
  int root_fd_ = -1;
  int proc_fd_ = -1;  ///< the box's own /proc: its processes and no others
};

}  // namespace weft
