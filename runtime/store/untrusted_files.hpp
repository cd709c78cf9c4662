// Files and folders that untrusted code could write: read, written and removed
// without following a link, whatever a tree's depth and names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// As write_file_whole, of the file at that path in `folder`. If a link or
/// anything else that is no folder lies on the way, the file is not written.
Result<void> write_file_beneath(const std::filesystem::path& folder,
                                const std::filesystem::path& file,
                                std::string_view bytes);

/// The bytes of a file in `folder`, after the code that could write there has
/// ended. wrong_input: it is no regular file, a link lies on the way, or it is
/// larger than `bytes_max`.
Result<std::string> read_file_beneath(const std::filesystem::path& folder,
                                      const std::filesystem::path& file,
                                      std::int64_t bytes_max);

/// Removes the file, link or folder at `path`. Success where nothing is there.
/// failed: somebody goes on filling it, or its files are another user's.
Result<void> remove_tree(const std::filesystem::path& path);

/// Removes all that lies in the folder, which stays: a sandbox may show it.
Result<void> empty_folder(const std::filesystem::path& folder);

}  // namespace weft
