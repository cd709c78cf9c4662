#include "runtime/journal/chain.hpp"

#include <algorithm>

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

}  // namespace weft
