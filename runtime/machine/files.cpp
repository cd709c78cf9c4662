#include "runtime/machine/files.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

Error cannot(const char* verb, const fs::path& file, const std::string& why) {
  return {ErrorCode::missing,
          std::string("cannot ") + verb + " " + file.string() + ": " + why};
}

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
  const fs::path folder = file.parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) {
    return std::unexpected(cannot("make the folder", folder, error.message()));
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

}  // namespace weft
