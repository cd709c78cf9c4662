// How roles share what is scarce: leases from the broker, timers from the
// clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/fields.hpp"
#include "messages/run.hpp"

namespace weft {

/// extractor (of the head), or "node/NAME" -> broker: how much there is of each
/// resource at a location; broker -> dispatcher, of locations with devices.
/// A later message about the same location replaces it. Units of 0: the
/// location has left by itself. No units at all: it is gone, and all leases
/// there are lost (vocabularies up to 5 said so of a node's death; now NodeLost
/// does).
struct Capacities {
  static constexpr std::string_view name = "Capacities";
  /// "cpu" -> cores, "gpu" -> 1 or more of one device, "gpu_memory" -> bytes.
  std::map<std::string, std::int64_t> units;
  int queue_max = 10'000;  ///< requests that may wait in all; the head says it
  Location location{};
  /// So long the units of an expired lease wait for its holder, who has the
  /// work stopped first. 0: not at all. The head says it.
  std::int64_t grace_ms = 0;
  Gpu gpu{};  ///< where the location is a device
  /// What a probe measured on it, as Machine::gpu_numbers. Empty: nothing.
  std::map<std::string, double> gpu_numbers{};
  /// Work that the location can do in this run (actors/capabilities.hpp).
  std::vector<std::string> capabilities{};
  std::string device_class{};  ///< of the location's device, by its name
  WEFT_FIELDS(units, queue_max, location, grace_ms, gpu, gpu_numbers,
              capabilities, device_class)
  bool operator==(const Capacities&) const = default;
};

/// "node/NAME" -> broker -> dispatcher: the node died, or nothing was heard of
/// it for too long. All that it offered is gone at once, and all work there.
struct NodeLost {
  static constexpr std::string_view name = "NodeLost";
  std::string node;                 ///< its name
  std::vector<Location> locations;  ///< all that it offered
  std::string reason;               ///< for people: "silent for 15 s"
  WEFT_FIELDS(node, locations, reason)
  bool operator==(const NodeLost&) const = default;
};

/// any role -> broker. A holder's tickets are its own numbers, never reused.
struct LeaseRequest {
  static constexpr std::string_view name = "LeaseRequest";
  std::uint64_t ticket = 0;
  std::string resource;
  /// Clipped to the location's capacity: "all" is a large number.
  std::int64_t units = 1;
  std::string group;  ///< turns go round the groups; a subgraph's id
  std::int64_t ttl_ms = 60'000;
  /// Locations that fit. Empty: all.
  std::vector<Location> locations{};
  /// Locations that do not fit, even if `locations` has them.
  std::vector<Location> avoid{};
  /// Higher ones go first, within groups and among them.
  int priority = 0;
  /// Bytes of "gpu_memory" at the same location.
  std::int64_t memory_bytes = 0;
  /// Within the same priority, higher ones go first. Equal ones take turns.
  std::int64_t expected_gain = 0;
  /// Locations that announce it fit, too. Without `locations`: no others do.
  std::string capability{};
  /// Longest wait while no location fits. 0: it is denied at once.
  std::int64_t wait_ms = 0;
  WEFT_FIELDS(ticket, resource, units, group, ttl_ms, locations, avoid,
              priority, memory_bytes, expected_gain, capability, wait_ms)
  bool operator==(const LeaseRequest&) const = default;
};

/// broker -> holder: the request goes to its port at that location.
struct LeaseGranted {
  static constexpr std::string_view name = "LeaseGranted";
  std::uint64_t ticket = 0;
  Location location{};
  WEFT_FIELDS(ticket, location)
  bool operator==(const LeaseGranted&) const = default;
};

/// broker -> holder: the queue is full, or there is no such resource.
struct LeaseDenied {
  static constexpr std::string_view name = "LeaseDenied";
  std::uint64_t ticket = 0;
  std::string reason;
  bool location_lost = false;  ///< there was a location for it, and it is gone
  WEFT_FIELDS(ticket, reason, location_lost)
  bool operator==(const LeaseDenied&) const = default;
};

/// broker -> holder: time is up.
struct LeaseExpired {
  static constexpr std::string_view name = "LeaseExpired";
  std::uint64_t ticket = 0;
  /// The units are the holder's still, for the grace time: it has the work
  /// stopped, then gives them back. False: they are others' now.
  bool retained = false;
  WEFT_FIELDS(ticket, retained)
  bool operator==(const LeaseExpired&) const = default;
};

/// broker -> holder: the location is gone, and what ran there with it.
struct LeaseLost {
  static constexpr std::string_view name = "LeaseLost";
  std::uint64_t ticket = 0;
  Location location;
  std::string reason;
  WEFT_FIELDS(ticket, location, reason)
  bool operator==(const LeaseLost&) const = default;
};

/// holder -> broker.
struct LeaseReleased {
  static constexpr std::string_view name = "LeaseReleased";
  std::uint64_t ticket = 0;
  WEFT_FIELDS(ticket)
  bool operator==(const LeaseReleased&) const = default;
};

/// any role -> port/clock, and its answer.
struct TimerRequest {
  static constexpr std::string_view name = "TimerRequest";
  std::uint64_t effect = 0;
  std::int64_t after_ms = 0;
  WEFT_FIELDS(effect, after_ms)
  bool operator==(const TimerRequest&) const = default;
};
struct TimerFired {
  static constexpr std::string_view name = "TimerFired";
  std::uint64_t effect = 0;
  WEFT_FIELDS(effect)
  bool operator==(const TimerFired&) const = default;
};

}  // namespace weft
