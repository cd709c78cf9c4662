#include "runtime/journal/blob_codec.hpp"

#include <zstd.h>

namespace weft {

StoredBlob encode_blob(std::string_view bytes) {
  // zstd's default: faster than the disk, and text shrinks to a third.
  constexpr int kLevel = 3;
  const auto size_bytes = static_cast<std::int64_t>(bytes.size());
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t packed_bytes = ZSTD_compress(
      packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(packed_bytes) || packed_bytes >= bytes.size()) {
    return {size_bytes, "raw", std::string(bytes)};
  }
  packed.resize(packed_bytes);
  packed.shrink_to_fit();
  return {size_bytes, "zstd", std::move(packed)};
}

Result<std::string> decode_blob(std::int64_t size_bytes, std::string_view codec,
                                std::string_view bytes) {
  // Checked before anything is allocated: a damaged size may be huge.
  if (size_bytes < 0 ||
      static_cast<std::uint64_t>(size_bytes) > kBlobBytesMax) {
    return fail(ErrorCode::damaged, "its size is not possible");
  }
  const auto size = static_cast<std::size_t>(size_bytes);
  if (codec == "raw") {
    if (bytes.size() == size) return std::string(bytes);
    return fail(ErrorCode::damaged, "its size is not that of its bytes");
  }
  if (codec != "zstd") {
    return fail(ErrorCode::damaged, "its codec is neither raw nor zstd");
  }
  if (ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != size) {
    return fail(ErrorCode::damaged, "its size is not that of its bytes");
  }
  std::string unpacked(size, '\0');
  if (ZSTD_decompress(unpacked.data(), size, bytes.data(), bytes.size()) !=
      size) {
    return fail(ErrorCode::damaged, "its bytes do not decompress");
  }
  return unpacked;
}

}  // namespace weft
