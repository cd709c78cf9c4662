#include "runtime/store/untrusted_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/store/fd.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Error cannot(const char* verb, const fs::path& file, const std::string& why) {
  return {ErrorCode::missing,
          std::string("cannot ") + verb + " " + file.string() + ": " + why};
}

/// Where a file is written before it is renamed: a name for each writer.
std::string part_of(const std::string& name) {
  static std::atomic<unsigned> writers = 0;
  return name + "." + std::to_string(getpid()) + "-" +
         std::to_string(writers++) + ".part";
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
  const Fd opened_folder(openat(parent, name.c_str(),
                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about{};
  if (!opened_folder || fstat(opened_folder.number(), &about) != 0)
    return Fd(-1);
  const std::string path =
      "/proc/self/fd/" + std::to_string(opened_folder.number());
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

Result<void> write_file_beneath(const fs::path& folder, const fs::path& file,
                                std::string_view bytes) {
  const auto refused = [&] {
    return std::unexpected(
        cannot("write", folder / file, std::strerror(errno)));
  };
  std::error_code error;
  fs::create_directories(folder, error);
  Fd at(open(folder.c_str(), kFolder));
  for (const fs::path& part : file.parent_path()) {
    if (!at) return refused();
    mkdirat(at.number(), part.c_str(), 0777);
    at = part == ".." ? Fd(-1) : Fd(openat(at.number(), part.c_str(), kFolder));
  }
  if (!at) return refused();
  const std::string name = file.filename();
  const std::string part = part_of(name);
  const Fd out(openat(at.number(), part.c_str(),
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                      0666));
  if (!out) return refused();
  bool is_whole = true;
  while (is_whole && !bytes.empty()) {
    const ssize_t done = write(out.number(), bytes.data(), bytes.size());
    if (done > 0) bytes.remove_prefix(static_cast<std::size_t>(done));
    is_whole = done > 0 || errno == EINTR;
  }
  is_whole = is_whole && renameat(at.number(), part.c_str(), at.number(),
                                  name.c_str()) == 0;
  if (is_whole) return {};
  const int code = errno;
  unlinkat(at.number(), part.c_str(), 0);
  errno = code;
  return refused();
}

Result<std::string> read_file_beneath(const fs::path& folder,
                                      const fs::path& file,
                                      std::int64_t bytes_max) {
  const auto refused = [&](const std::string& why) {
    return fail(ErrorCode::wrong_input,
                "cannot read " + file.string() + ": " + why);
  };
  Fd at(open(folder.c_str(), kFolder));
  for (const fs::path& part : file.parent_path()) {
    if (!at) break;
    at = part == ".." ? Fd(-1) : Fd(openat(at.number(), part.c_str(), kFolder));
  }
  if (!at) return refused(std::strerror(errno));
  // Whoever opens a pipe to read from it waits for a writer.
  const Fd in(openat(at.number(), file.filename().c_str(),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about{};
  if (!in || fstat(in.number(), &about) != 0) {
    return refused(std::strerror(errno));
  }
  if (!S_ISREG(about.st_mode)) return refused("it is no regular file");
  if (about.st_size > bytes_max) {
    return refused("it has " + std::to_string(about.st_size) +
                   " bytes, more than " + std::to_string(bytes_max));
  }
  std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        read(in.number(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refused("it ended before its size");
    done += static_cast<std::size_t>(got);
  }
  return bytes;
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
