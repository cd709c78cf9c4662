// Who the sandboxed command is when weft runs as root: a user that owns
// nothing but the scratch folder.
#pragma once

#include <cstdint>
#include <filesystem>

#include "messages/result.hpp"

namespace weft {

/// A user id of this launcher's own while it lives; -1 when we are not root
/// and the command stays the ordinary user that we are.
std::int64_t slot_uid();

/// Makes the user the owner of the folder and all in it.
Result<void> give_folder(const std::filesystem::path& folder, std::int64_t uid);

/// All files below the folder, or `limit` + 1 as soon as it is known to be
/// more (so that a million empty files do not take a second to walk).
std::int64_t folder_bytes(const std::filesystem::path& folder,
                          std::int64_t limit);

}  // namespace weft
