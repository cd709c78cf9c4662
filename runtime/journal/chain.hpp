// The chain of checks over the journal's events, and SHA-256, from which it
// is made. The bytes that go in are listed in docs/journal.md.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "messages/envelope.hpp"

namespace weft {

constexpr std::size_t kCheckBytes = 16;

/// What an event's row carries to tie it to the row before.
using Check = std::array<unsigned char, kCheckBytes>;

inline std::string_view bytes_of(const Check& check) {
  return {reinterpret_cast<const char*>(check.data()), check.size()};
}

/// Two lower-case digits for each byte.
std::string to_hex(std::string_view bytes);

/// Appends eight bytes, the lowest first, whatever the machine's own order.
void append_u64(std::string& out, std::uint64_t value);

/// Appends the length as above, then the text, so that no two lists of texts
/// have the same bytes.
void append_text(std::string& out, std::string_view text);

/// SHA-256, with OpenSSL's state kept between calls: making it anew costs
/// more than hashing an event. One thread at a time.
class Sha256 {
 public:
  using Digest = std::array<unsigned char, 32>;
  Sha256();
  Digest operator()(std::string_view bytes);

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

/// Computes checks. One thread at a time.
class Chain {
 public:
  /// The check of the event after the one whose check is `previous`; before
  /// the first event that is Check{}, sixteen zero bytes.
  Check next(const Check& previous, const Envelope& envelope);

  /// The check of some bytes on their own.
  Check of(std::string_view bytes);

 private:
  Sha256 sha256_;
  std::string encoded_;  ///< kept to save an allocation per event
};

}  // namespace weft
