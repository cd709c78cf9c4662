#include "runtime/report/text_pack.hpp"

#include <openssl/evp.h>
#include <zlib.h>

#include <stdexcept>

namespace weft {
namespace {

/// Of one pack before compression: what is inflated to show one text.
constexpr std::size_t kPackBytes = std::size_t{256} << 10;

}  // namespace

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                             reinterpret_cast<const Bytef*>(bytes.data()),
                             static_cast<uLong>(bytes.size()), 9);
  // Its only other failures are a buffer that is too small and no memory.
  if (code != Z_OK) throw std::bad_alloc();
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

bool TextPacks::add(const std::string& hash, std::string_view text) {
  if (index_.contains(hash)) return true;
  if (open_.size() + text.size() > kPackBytes) finish_pack();
  if (bytes_ >= bytes_max_) return false;
  index_[hash] = {packs_.size(), open_.size(), text.size()};
  open_ += text;
  return true;
}

void TextPacks::finish_pack() {
  if (open_.empty()) return;
  packs_.push_back(base64(deflated(open_)));
  bytes_ += packs_.back().size();
  open_.clear();
}

const std::vector<std::string>& TextPacks::packs() {
  finish_pack();
  return packs_;
}

}  // namespace weft
