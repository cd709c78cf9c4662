#include "runtime/machine/disk_space.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Of a file system without fallocate, as some network ones and old kernels.
bool cannot_promise(int code) {
  return code == EOPNOTSUPP || code == ENOTSUP || code == ENOSYS;
}

/// 0, or why the file system says that there is less.
int what_is_free(int fd, std::int64_t bytes) {
  struct statvfs about{};
  // One that does not say that either shows its limits when it is written to.
  if (fstatvfs(fd, &about) != 0 || about.f_blocks == 0) return 0;
  const auto wanted = static_cast<unsigned long long>(bytes);
  return about.f_bavail >= wanted / about.f_frsize ? 0 : ENOSPC;
}

}  // namespace

int allocate(int fd, std::int64_t bytes) {
  return fallocate(fd, 0, 0, bytes) == 0 ? 0 : errno;
}

Result<void> try_free_space(const fs::path& folder, std::int64_t bytes,
                            const Allocate& allocate_with) {
  std::string file;
  int fd = -1;
  int code = 0;
  // A signal says nothing of the disk.
  do {
    file = folder / "room.XXXXXX";
    fd = mkostemp(file.data(), O_CLOEXEC);
    code = fd < 0 ? errno : 0;
  } while (code == EINTR);
  if (fd >= 0) {
    do {
      code = allocate_with(fd, bytes);
    } while (code == EINTR);
    if (cannot_promise(code)) code = what_is_free(fd, bytes);
    close(fd);
    unlink(file.c_str());
  }
  if (code == 0) return {};
  return fail(ErrorCode::missing,
              "cannot write " + std::to_string(bytes >> 20) + " MiB to " +
                  folder.string() + ": " + std::strerror(code));
}

}  // namespace weft
