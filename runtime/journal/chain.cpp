#include "runtime/journal/chain.hpp"

#include <algorithm>
#include <new>

#include "runtime/journal/journal.hpp"

namespace weft {
void append_u64(std::string& out, std::uint64_t value) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out.append(bytes, sizeof bytes);
}

void append_text(std::string& out, std::string_view text) {
  append_u64(out, text.size());
  out.append(text);
}

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

Check Chain::next(const Check& previous, const Envelope& envelope) {
  encoded_.assign(bytes_of(previous));
  append_u64(encoded_, envelope.seq);
  append_u64(encoded_, static_cast<std::uint64_t>(envelope.at_us));
  append_u64(encoded_, envelope.cause);
  append_text(encoded_, envelope.src);
  append_text(encoded_, envelope.dst);
  append_text(encoded_, envelope.type);
  append_text(encoded_, envelope.body);
  return of(encoded_);
}

Check Chain::of(std::string_view bytes) {
  const auto digest = sha256_(bytes);
  Check check;
  std::copy_n(digest.begin(), check.size(), check.begin());
  return check;
}

std::string content_hash(std::string_view bytes) {
  const auto digest = Sha256()(bytes);
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace weft
