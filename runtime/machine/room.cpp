#include "runtime/machine/room.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft {

Result<void> try_room(const std::filesystem::path& folder, std::int64_t bytes) {
  std::string file = folder / "room.XXXXXX";
  const int fd = mkostemp(file.data(), O_CLOEXEC);
  int code = fd < 0 ? errno : 0;
  if (fd >= 0) {
    // Some file systems cannot promise: those are believed.
    if (fallocate(fd, 0, 0, bytes) != 0 && errno != EOPNOTSUPP) code = errno;
    close(fd);
    unlink(file.c_str());
  }
  if (code == 0) return {};
  return fail(ErrorCode::missing,
              "cannot write " + std::to_string(bytes >> 20) + " MiB to " +
                  folder.string() + ": " + std::strerror(code));
}

}  // namespace weft
