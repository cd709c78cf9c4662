#include "runtime/ports/files_port.hpp"

#include "runtime/machine/files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A path that stays inside the run directory.
bool stays_inside(const fs::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  for (const fs::path& part : path) {
    if (part == "..") return false;
  }
  return true;
}

}  // namespace

FilesPort::FilesPort(fs::path run_directory, Blobs& blobs)
    : directory_(std::move(run_directory)), blobs_(blobs) {}

void FilesPort::start(const Message& request, Reply reply) {
  queue_.push([this, request = std::get<WriteFilesRequest>(request),
               reply = std::move(reply)] {
    reply(write_files(directory_, blobs_, request));
  });
}

WriteFilesReply write_files(const fs::path& folder, Blobs& blobs,
                            const WriteFilesRequest& request) {
  WriteFilesReply reply{request.effect, {}};
  for (const FileToWrite& file : request.files) {
    if (!stays_inside(file.path)) {
      reply.failure = {
          "failed",
          "'" + file.path + "' is not a path inside the run directory"};
      return reply;
    }
    const auto bytes = blobs.get(file.blob);
    if (!bytes) {
      reply.failure = {"failed", bytes.error().message};
      return reply;
    }
    const auto done = write_file_whole(folder / file.path, *bytes);
    if (!done) {
      reply.failure = {"missing", done.error().message};
      return reply;
    }
  }
  return reply;
}

}  // namespace weft
