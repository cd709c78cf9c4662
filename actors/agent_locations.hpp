// The subgraphs that have an agent, and the locations that each may use. In
// runs that gain locations (actors/device.hpp), agents get those that join
// later. If all of an agent's locations left, it gets the next one, or ends
// when a timer fires.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/pending_effects.hpp"
#include "actors/role.hpp"

namespace weft {

/// Where kernels can be called, and the device that is there.
using DeviceLocations = std::map<Location, std::optional<Gpu>>;

class AgentLocations {
 public:
  bool empty() const { return agents_.empty(); }

  /// Names the location with the fewest agents, and after it all whose times
  /// can be compared with its times. Returns its device.
  std::optional<Gpu> assign(OptimizeSubgraph& work,
                            const DeviceLocations& all) const;

  /// An agent that was sent this work begins, on devices like that one.
  void add(const OptimizeSubgraph& work, const std::optional<Gpu>& gpu);
  void remove(const std::string& subgraph);

  void mark_gone(const Location& location);

  /// Tells agents of locations that joined. Starts a timer of `wait_ms` for an
  /// agent that has no location left.
  void extend(const DeviceLocations& all, std::int64_t wait_ms,
              PendingEffects& effects, Context& context);

  /// The subgraph whose wait that timer ends, once.
  std::optional<std::string> take_stranded(std::uint64_t effect);

  nlohmann::json describe() const;

 private:
  struct Agent {
    OptimizeSubgraph work;      ///< As sent to the agent.
    std::optional<Gpu> gpu;     ///< The GPU of its locations.
    std::set<Location> gone{};  ///< Its locations that left.
    std::uint64_t alarm = 0;    ///< Ends the wait for a location; 0: no wait.

    bool is_stranded() const;
    Location location() const;
  };

  std::map<std::string, Agent> agents_;  ///< By subgraph.
};

}  // namespace weft
