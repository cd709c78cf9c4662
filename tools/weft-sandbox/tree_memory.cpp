#include "tree_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace weft {
namespace {

/// Empty where the process has just gone.
std::string read_at(int folder, const std::string& path) {
  const int fd = openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(4096, '\0');
  const ssize_t size = read(fd, text.data(), text.size());
  close(fd);
  text.resize(size > 0 ? size : 0);
  return text;
}

/// The value of a line such as "RssAnon:     1234 kB", in bytes.
std::int64_t field_bytes(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return 0;
  return std::strtoll(text.data() + at + name.size(), nullptr, 10) * 1024;
}

/// Pages shared after a fork count in each process: too high, but cheap.
std::int64_t at_most_bytes(int proc_fd, const std::string& process) {
  const std::string text = read_at(proc_fd, process + "/status");
  return field_bytes(text, "\nRssAnon:") + field_bytes(text, "\nRssShmem:");
}

/// Each page shared by n processes counts as 1/n in each. Walks page tables.
std::int64_t exact_bytes(int proc_fd, const std::string& process) {
  const std::string text = read_at(proc_fd, process + "/smaps_rollup");
  return field_bytes(text, "\nPss_Anon:") + field_bytes(text, "\nPss_Shmem:");
}

std::int64_t sum(int proc_fd,
                 std::int64_t (*of_process)(int, const std::string&)) {
  const int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
  if (!folder) return 0;
  std::int64_t total = 0;
  while (const dirent* entry = readdir(folder)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    total += of_process(proc_fd, entry->d_name);
  }
  closedir(folder);
  return total;
}

std::int64_t files_bytes(int root_fd, const char* path) {
  const int fd = openat(root_fd, path, O_PATH | O_CLOEXEC);
  if (fd < 0) return 0;
  struct statvfs stats{};
  const bool known = fstatvfs(fd, &stats) == 0;
  close(fd);
  if (!known) return 0;
  return static_cast<std::int64_t>(stats.f_blocks - stats.f_bfree) *
         static_cast<std::int64_t>(stats.f_frsize);
}

}  // namespace

std::optional<TreeMemory> TreeMemory::of(pid_t first) {
  const std::string path = "/proc/" + std::to_string(first) + "/root";
  const int root = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return std::nullopt;
  const int proc = openat(root, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  TreeMemory memory(root, proc);
  if (proc < 0 || memory.used_bytes(0) == 0) return std::nullopt;
  return memory;
}

TreeMemory::TreeMemory(TreeMemory&& other) noexcept
    : root_fd_(std::exchange(other.root_fd_, -1)),
      proc_fd_(std::exchange(other.proc_fd_, -1)) {}

TreeMemory::~TreeMemory() {
  if (root_fd_ >= 0) close(root_fd_);
  if (proc_fd_ >= 0) close(proc_fd_);
}

std::int64_t TreeMemory::used_bytes(std::int64_t limit) const {
  const std::int64_t files =
      files_bytes(root_fd_, "tmp") + files_bytes(root_fd_, "dev/shm");
  const std::int64_t at_most = files + sum(proc_fd_, at_most_bytes);
  if (at_most <= limit) return at_most;
  return files + sum(proc_fd_, exact_bytes);
}

}  // namespace weft
