#include "runtime/machine/room.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/machine/fd.hpp"
#include "runtime/machine/untrusted_files.hpp"

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

using Clock = std::chrono::steady_clock;

/// Emptying takes milliseconds, unless somebody goes on filling.
constexpr std::chrono::seconds kEmptyMax{60};
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

std::unexpected<Error> cannot_remove(const std::string& name) {
  return fail(ErrorCode::failed,
              "cannot remove " + name + ": " + std::strerror(errno));
}

/// The folder, opened for reading once its owner, who is this user or whom
/// root outranks, may list and change it. No link is followed.
Fd open_writable(int parent, const std::string& name) {
  const Fd place(openat(parent, name.c_str(),
                        O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about{};
  if (!place || fstat(place.number(), &about) != 0) return Fd(-1);
  const std::string path = "/proc/self/fd/" + std::to_string(place.number());
  if ((about.st_mode & S_IRWXU) != S_IRWXU) chmod(path.c_str(), S_IRWXU);
  return Fd(open(path.c_str(), kOpenFolder));
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  const int copy = openat(folder, ".", kOpenFolder);
  DIR* entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(entries);
  return names;
}

/// True if it is gone, or was never there.
bool is_unlinked(int folder, const std::string& name) {
  return unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT;
}

/// Moves a folder up. A name that is taken there does no harm: only an empty
/// folder is replaced.
bool lift(int inner, const std::string& name, int folder) {
  static std::atomic<unsigned> lifted = 0;
  for (int tries = 0; tries < 1000; ++tries) {
    const std::string free = ".lifted-" + std::to_string(lifted++);
    if (renameat(inner, name.c_str(), folder, free.c_str()) == 0) return true;
    const bool is_taken =
        errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
    if (!is_taken) return errno == ENOENT;
  }
  return false;
}

/// Removes one folder in `folder`; the folders in it move up: a tree gets
/// flatter by this, however deep it is.
bool flatten(int folder, const std::string& name) {
  const Fd inner = open_writable(folder, name);
  if (!inner) return errno == ENOENT;
  for (const std::string& each : names_in(inner.number())) {
    if (is_unlinked(inner.number(), each)) continue;
    const Fd writable = open_writable(inner.number(), each);  // for its ".."
    if (!lift(inner.number(), each, folder)) return false;
  }
  return unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

Result<void> empty_opened(int folder, const std::string& what) {
  const auto until = Clock::now() + kEmptyMax;
  for (auto names = names_in(folder); !names.empty();
       names = names_in(folder)) {
    for (const std::string& name : names) {
      if (!is_unlinked(folder, name) && !flatten(folder, name)) {
        return cannot_remove(what);
      }
      if (Clock::now() > until) {
        errno = EBUSY;
        return cannot_remove(what);
      }
    }
  }
  return {};
}

}  // namespace

int allocate(int fd, std::int64_t bytes) {
  return fallocate(fd, 0, 0, bytes) == 0 ? 0 : errno;
}

Result<void> try_room(const fs::path& folder, std::int64_t bytes,
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

Result<void> empty_folder(const fs::path& folder) {
  const Fd opened = open_writable(AT_FDCWD, folder.string());
  if (opened) return empty_opened(opened.number(), folder.string());
  if (errno == ENOENT) return {};
  return cannot_remove(folder.string());
}

Result<void> remove_tree(const fs::path& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  if (const auto done = empty_folder(path); !done) return done;
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  return cannot_remove(path.string());
}

}  // namespace weft
