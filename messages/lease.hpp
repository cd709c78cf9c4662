// How roles share what is scarce: leases from the broker, timers from the
// clock.
#pragma once

#include <cstdint>
#include <map>
#include <msgpack.hpp>
#include <string>

namespace weft {

/// extractor -> broker: how much there is of each resource.
struct Capacities {
  static constexpr std::string_view name = "Capacities";
  std::map<std::string, int> units;  ///< "cpu" -> cores
  int queue_max = 10'000;            ///< requests that may wait in all
  MSGPACK_DEFINE_MAP(units, queue_max)
  bool operator==(const Capacities&) const = default;
};

/// any role -> broker. A holder's tickets are its own numbers, never reused.
struct LeaseRequest {
  static constexpr std::string_view name = "LeaseRequest";
  std::uint64_t ticket = 0;
  std::string resource;
  int units = 1;      ///< clipped to the capacity: "all" is a large number
  std::string group;  ///< turns go round the groups; a subgraph's id
  std::int64_t ttl_ms = 60'000;
  MSGPACK_DEFINE_MAP(ticket, resource, units, group, ttl_ms)
  bool operator==(const LeaseRequest&) const = default;
};

/// broker -> holder.
struct LeaseGranted {
  static constexpr std::string_view name = "LeaseGranted";
  std::uint64_t ticket = 0;
  MSGPACK_DEFINE_MAP(ticket)
  bool operator==(const LeaseGranted&) const = default;
};

/// broker -> holder: the queue is full, or there is no such resource.
struct LeaseDenied {
  static constexpr std::string_view name = "LeaseDenied";
  std::uint64_t ticket = 0;
  std::string reason;
  MSGPACK_DEFINE_MAP(ticket, reason)
  bool operator==(const LeaseDenied&) const = default;
};

/// broker -> holder: time is up, the units have been given back.
struct LeaseExpired {
  static constexpr std::string_view name = "LeaseExpired";
  std::uint64_t ticket = 0;
  MSGPACK_DEFINE_MAP(ticket)
  bool operator==(const LeaseExpired&) const = default;
};

/// holder -> broker.
struct LeaseReleased {
  static constexpr std::string_view name = "LeaseReleased";
  std::uint64_t ticket = 0;
  MSGPACK_DEFINE_MAP(ticket)
  bool operator==(const LeaseReleased&) const = default;
};

/// broker -> port/clock, and its answer.
struct TimerRequest {
  static constexpr std::string_view name = "TimerRequest";
  std::uint64_t effect = 0;
  std::int64_t after_ms = 0;
  MSGPACK_DEFINE_MAP(effect, after_ms)
  bool operator==(const TimerRequest&) const = default;
};
struct TimerFired {
  static constexpr std::string_view name = "TimerFired";
  std::uint64_t effect = 0;
  MSGPACK_DEFINE_MAP(effect)
  bool operator==(const TimerFired&) const = default;
};

}  // namespace weft
