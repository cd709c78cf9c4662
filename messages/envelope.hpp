// One message under way. The journal numbers envelopes; everything that
// happens in a run is a list of them. Plain data: copies freely, any thread.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// Who sends or receives: "extractor", "agent/sg_1f2e", "port/build", "user".
/// The part before '/' names the kind, the rest the instance. A port at a
/// location other than the head has it behind an '@': "port/build@NAME".
using Address = std::string;

/// Where effects happen: "" is the head, "NAME" a node; a device there is
/// "NAME/GPU-8a5c…", by its UUID, and one of the head's "/GPU-8a5c…".
using Location = std::string;

struct Envelope {
  std::uint64_t seq =
      0;  ///< position in the journal, from 1; 0 = not yet in it
  std::uint64_t cause = 0;  ///< seq of the envelope that led to this; 0 = none
  std::int64_t at_us = 0;   ///< when journaled: microseconds since 1970, UTC
  Address src;
  Address dst;
  std::string type;  ///< the message's name, such as "CaptureRequest"
  std::string body;  ///< the message: a msgpack map with field names

  bool operator==(const Envelope&) const = default;
};

/// "agent/sg_1f2e" -> "agent".
inline std::string kind_of(const Address& address) {
  return address.substr(0, address.find('/'));
}

/// "agent/sg_1f2e" -> "sg_1f2e"; "" when there is no instance part.
inline std::string instance_of(const Address& address) {
  const auto slash = address.find('/');
  return slash == Address::npos ? "" : address.substr(slash + 1);
}

/// "port/verify@n1/GPU-8a5c" -> "n1/GPU-8a5c"; "" for the head.
inline Location location_of(const Address& address) {
  const auto at = address.find('@');
  return at == Address::npos ? "" : address.substr(at + 1);
}

/// "port/verify@n1/GPU-8a5c" -> "port/verify".
inline Address port_of(const Address& address) {
  return address.substr(0, address.find('@'));
}

/// "n1/GPU-8a5c" -> "n1"; "" for the head and its devices.
inline std::string node_of(const Location& location) {
  return location.substr(0, location.find('/'));
}

/// "n1/GPU-8a5c" -> "GPU-8a5c"; "" where the location is no device.
inline std::string device_of(const Location& location) {
  const auto slash = location.find('/');
  return slash == Location::npos ? "" : location.substr(slash + 1);
}

}  // namespace weft
