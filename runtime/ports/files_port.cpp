#include "runtime/ports/files_port.hpp"

#include "messages/untrusted.hpp"
#include "runtime/machine/files.hpp"

namespace weft {
namespace fs = std::filesystem;

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
    if (const auto inside = check_path_inside(file.path); !inside) {
      reply.failure = {"failed", inside.error().message};
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
