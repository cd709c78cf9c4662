// Texts in a page: deflated together in packs, in base64, to be inflated by the
// browser when one is looked at. Alike texts, as kernels' variants are, cost
// next to nothing beside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace weft {

/// `bytes` in zlib's format (RFC 1950), which browsers call "deflate".
std::string deflated(std::string_view bytes);

std::string base64(std::string_view bytes);

class TextPacks {
 public:
  explicit TextPacks(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// False: there is no room for it. A text that is there already costs
  /// nothing.
  bool add(const std::string& hash, std::string_view text);

  struct Where {
    std::size_t pack = 0;
    std::size_t offset = 0;  ///< bytes
    std::size_t size = 0;
  };
  const std::map<std::string, Where>& index() const { return index_; }

  /// Each in base64. After it nothing may be added.
  const std::vector<std::string>& packs();

 private:
  void finish_pack();

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;  ///< of finished packs
  std::string open_;       ///< the pack that texts are added to
  std::vector<std::string> packs_;
  std::map<std::string, Where> index_;
};

}  // namespace weft
