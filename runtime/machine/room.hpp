// Whether a disk has room: what fails for want of it is the machine's fault.
#pragma once

#include <cstdint>
#include <filesystem>

#include "messages/result.hpp"

namespace weft {

/// Whether `folder` takes so many bytes more, which are not left there. missing
/// says why it does not: a full disk, or a quota.
Result<void> try_room(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace weft
