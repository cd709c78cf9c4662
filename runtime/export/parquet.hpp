// Pairs as parquet. The one well-kept writer that Debian and PyPI both leave
// small enough to ask for is pyarrow, so the chosen Python writes it, where it
// has that package.
#pragma once

#include <filesystem>

#include "messages/result.hpp"

namespace weft {

/// `lines` as pairs_export() gives them, in a file. missing where this Python
/// has no pyarrow: how to get it, and what does without.
Result<void> write_parquet(const std::filesystem::path& python,
                           const std::filesystem::path& lines,
                           const std::filesystem::path& out);

}  // namespace weft
