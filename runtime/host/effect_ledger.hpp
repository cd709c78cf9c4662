// Which requests to ports have no reply yet. A port answers each request once,
// as the journal sees it: what comes twice, or to no request, goes to `stale`.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "messages/effects.hpp"
#include "messages/envelope.hpp"

namespace weft {

/// Where a second reply to a request goes: journaled, delivered to nobody.
inline const Address stale_address = "stale";

inline bool is_port(const Address& address) {
  return address.starts_with("port/");
}

/// Whether it asks a port for a reply of its own.
inline bool is_request(const Envelope& envelope) {
  return is_port(envelope.dst) && envelope.type != CancelEffect::name;
}

class EffectLedger {
 public:
  explicit EffectLedger(std::set<std::uint64_t> open = {})
      : open_(std::move(open)) {}

  /// Takes an envelope that has just got its seq; may redirect it to `stale`.
  void settle(Envelope& envelope) {
    if (is_request(envelope)) open_.insert(envelope.seq);
    if (is_port(envelope.src) && open_.erase(envelope.cause) == 0) {
      envelope.dst = stale_address;
    }
  }

 private:
  std::set<std::uint64_t> open_;
};

}  // namespace weft
