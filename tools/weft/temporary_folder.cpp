#include "tools/weft/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "runtime/store/untrusted_files.hpp"

namespace weft {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::make(const std::string& prefix) {
  std::error_code error;
  const fs::path above = fs::temp_directory_path(error);
  std::string name = (above / (prefix + "XXXXXX")).string();
  if (error || !mkdtemp(name.data())) {
    return fail(ErrorCode::missing, "no folder can be made in " +
                                        above.string() + ": " +
                                        std::strerror(errno) + "; set TMPDIR");
  }
  // The sandbox's own user must get through to the scratch below.
  fs::permissions(name, fs::perms(0755), error);
  return TemporaryFolder(name);
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) (void)remove_tree(path_);
}

}  // namespace weft
