#include "tree_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_set>
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

/// The entries of a folder of /proc whose names are numbers.
template <typename Visit>
void each_number(int parent_fd, const std::string& path, Visit visit) {
  const int fd =
      openat(parent_fd, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
  if (!folder) {
    if (fd >= 0) close(fd);
    return;
  }
  while (const dirent* entry = readdir(folder)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    visit(fd, std::string(entry->d_name));
  }
  closedir(folder);
}

std::int64_t sum(int proc_fd,
                 std::int64_t (*of_process)(int, const std::string&)) {
  std::int64_t total = 0;
  each_number(proc_fd, ".", [&](int fd, const std::string& process) {
    total += of_process(fd, process);
  });
  return total;
}

std::int64_t files_bytes(int root_fd, const char* path) {
  const int fd = openat(root_fd, path, O_PATH | O_CLOEXEC);
  if (fd < 0) return 0;
  struct statvfs stats{};
  const bool known = fstatvfs(fd, &stats) == 0;
  close(fd);
  if (!known) return 0;
  const auto bytes = static_cast<std::int64_t>(stats.f_blocks - stats.f_bfree) *
                     static_cast<std::int64_t>(stats.f_frsize);
  // An empty file has no block, but takes memory of the kernel.
  constexpr std::int64_t kEntryBytes = 1024;
  return bytes +
         static_cast<std::int64_t>(stats.f_files - stats.f_ffree) * kEntryBytes;
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

std::int64_t TreeMemory::deleted_bytes(
    const std::filesystem::path& folder) const {
  struct stat place{};
  if (stat(folder.c_str(), &place) != 0) return 0;
  std::unordered_set<ino_t> counted;
  std::int64_t bytes = 0;
  each_number(proc_fd_, ".", [&](int fd, const std::string& process) {
    each_number(fd, process + "/fd", [&](int files, const std::string& name) {
      struct stat about{};
      if (fstatat(files, name.c_str(), &about, 0) != 0) return;
      if (!S_ISREG(about.st_mode) || about.st_nlink != 0) return;
      if (about.st_dev != place.st_dev) return;
      if (!counted.insert(about.st_ino).second) return;
      bytes += static_cast<std::int64_t>(about.st_blocks) * 512;
    });
  });
  return bytes;
}

}  // namespace weft
