// How a blob's bytes are stored: compressed with zstd where that is smaller,
// as they are where it is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// More than any prompt, source or log, and below SQLite's own limit of 1 GB.
constexpr std::size_t kBlobBytesMax = std::size_t{512} << 20;

struct StoredBlob {
  std::int64_t size_bytes = 0;  ///< before compression
  std::string codec;            ///< "zstd" or "raw"
  std::string bytes;            ///< as stored
};

StoredBlob encode_blob(std::string_view bytes);

/// The bytes that were encoded; damaged when these can't be any blob's. The
/// caller compares the hash.
Result<std::string> decode_blob(std::int64_t size_bytes, std::string_view codec,
                                std::string_view bytes);

}  // namespace weft
