// The chain of checks over the journal's events. The bytes that go in are
// listed in docs/reference/journal.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "messages/envelope.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {

constexpr std::size_t kCheckBytes = 16;

/// What an event's row carries to tie it to the row before.
using Check = std::array<unsigned char, kCheckBytes>;

inline std::string_view bytes_of(const Check& check) {
  return {reinterpret_cast<const char*>(check.data()), check.size()};
}

/// Appends eight bytes, the lowest first, whatever the machine's own order.
void append_u64(std::string& out, std::uint64_t value);

/// Appends the length as above, then the text, so that no two lists of texts
/// have the same bytes.
void append_text(std::string& out, std::string_view text);

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
