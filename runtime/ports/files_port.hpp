// port/files: writes files of the run directory, each whole or not at all (a
// new file is renamed into its location).
#pragma once

#include <filesystem>

#include "actors/role.hpp"
#include "runtime/host/port.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {

class FilesPort : public Port {
 public:
  FilesPort(std::filesystem::path run_directory, Blobs& blobs);

  void start(const Message& request, Reply reply) override;

 private:
  std::filesystem::path directory_;
  Blobs& blobs_;
  WorkQueue queue_{1};
};

/// Each file below `folder`, whole; the first that cannot be is the failure.
WriteFilesReply write_files(const std::filesystem::path& folder, Blobs& blobs,
                            const WriteFilesRequest& request);

}  // namespace weft
