#include "runtime/machine/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "runtime/machine/fd.hpp"
#include "runtime/machine/untrusted_files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

Error cannot(const char* verb, const fs::path& file, const std::string& why) {
  return {ErrorCode::missing,
          std::string("cannot ") + verb + " " + file.string() + ": " + why};
}

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Where `file` is written before it is renamed. Each writer has a name of its
/// own: with one for all, two threads that write the same file would truncate
/// each other's bytes, and the second would find nothing to rename.
fs::path part_of(const fs::path& file) {
  static std::atomic<unsigned> writers = 0;
  fs::path part = file;
  part += "." + std::to_string(getpid()) + "-" + std::to_string(writers++) +
          ".part";
  return part;
}

}  // namespace

Result<void> write_file_whole(const fs::path& file, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    return std::unexpected(
        cannot("make the folder", file.parent_path(), error.message()));
  }
  const fs::path part = part_of(file);
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      const std::string why = std::strerror(errno);
      fs::remove(part, error);
      return std::unexpected(cannot("write", file, why));
    }
  }
  fs::rename(part, file, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(part, error);
  return std::unexpected(cannot("write", file, why));
}

Result<std::string> read_file(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    return fail(ErrorCode::wrong_input, "there is no file " + file.string());
  }
  if (fs::is_directory(file, error)) {
    return fail(ErrorCode::wrong_input,
                file.string() + " is a folder, not a file");
  }
  if (!fs::is_regular_file(file, error)) {  // who reads a pipe waits for it
    return fail(ErrorCode::wrong_input,
                file.string() + " is no regular file: save it as one");
  }
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (!in) {
    return fail(ErrorCode::wrong_input,
                "cannot read " + file.string() + ": " + std::strerror(errno));
  }
  return bytes.str();
}

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
  const std::string part = part_of(name).string();
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

}  // namespace weft
