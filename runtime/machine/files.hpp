// Reading a file, and writing one whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// Writes `bytes` beside `file` and renames; makes the folders it needs. Any
/// number of threads and processes may write the same file: a reader sees the
/// bytes of one of them, whole.
Result<void> write_file_whole(const std::filesystem::path& file,
                              std::string_view bytes);

/// The file's bytes. wrong_input names the file and why it cannot be read.
Result<std::string> read_file(const std::filesystem::path& file);

}  // namespace weft
