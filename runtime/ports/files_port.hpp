// port/files: writes files of the run directory, each whole or not at all (a
// new file is renamed into its place).
#pragma once

#include <filesystem>
#include <string_view>

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {

class FilesPort : public Port {
 public:
  FilesPort(std::filesystem::path run_directory, Blobs& blobs);

  void start(const Message& request, Reply reply) override;

 private:
  WriteFilesReply write(const WriteFilesRequest& request);

  std::filesystem::path directory_;
  Blobs& blobs_;
  WorkQueue queue_{1};
};

/// Writes `bytes` beside `file` and renames; makes the folders it needs. Any
/// number of threads and processes may write the same file: a reader sees the
/// bytes of one of them, whole.
Result<void> write_file_whole(const std::filesystem::path& file,
                              std::string_view bytes);

/// The file's bytes. wrong_input names the file and why it cannot be read.
Result<std::string> read_file(const std::filesystem::path& file);

}  // namespace weft
