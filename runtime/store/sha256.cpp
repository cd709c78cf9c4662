#include "runtime/store/sha256.hpp"

#include <new>

namespace weft {

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Sha256::Sha256()
    : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)),
      context_(EVP_MD_CTX_new()) {
  if (!algorithm_ || !context_) throw std::bad_alloc();
}

Sha256::Digest Sha256::operator()(std::string_view bytes) {
  Digest digest;
  const bool done =
      EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr) == 1 &&
      EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1 &&
      EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1;
  // Nothing but a lack of memory makes these fail.
  if (!done) throw std::bad_alloc();
  return digest;
}

std::string content_hash(std::string_view bytes) {
  const auto digest = Sha256()(bytes);
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace weft
