// Whether a disk has room, and how some is made: what fails for want of it is
// the machine's fault.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "messages/result.hpp"

namespace weft {

/// As fallocate(2), of a file's first bytes: 0, or an error of errno's.
using Allocate = std::function<int(int fd, std::int64_t bytes)>;
int allocate(int fd, std::int64_t bytes);

/// Whether `folder` takes so many bytes more, which are not left there. missing
/// says why it does not: a full disk, or a quota. A file system that cannot
/// promise room is believed to have what it says is free.
Result<void> try_free_space(const std::filesystem::path& folder,
                            std::int64_t bytes,
                            const Allocate& allocate_with = &allocate);

}  // namespace weft
