// SHA-256: the names of blobs and of whatever else is found by its content.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

/// Two lower-case digits for each byte.
std::string to_hex(std::string_view bytes);

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

/// SHA-256 as 64 hex digits: the name of a blob.
std::string content_hash(std::string_view bytes);

}  // namespace weft
