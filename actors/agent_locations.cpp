#include "actors/agent_locations.hpp"

#include <algorithm>

#include "actors/device.hpp"

namespace weft {
namespace {

/// A node that comes and goes adds no more to an agent's locations.
constexpr std::size_t kLocationsMax = 8'192;

/// Devices whose times can be compared.
bool is_alike(std::optional<Gpu> a, std::optional<Gpu> b) {
  if (a) a->uuid.clear();
  if (b) b->uuid.clear();
  return a == b;
}

}  // namespace

bool AgentLocations::Agent::is_stranded() const {
  return !work.locations.empty() &&
         std::ranges::all_of(work.locations, [&](const Location& location) {
           return gone.contains(location);
         });
}

/// Where it works, as far as is known here.
Location AgentLocations::Agent::location() const {
  const auto found = std::ranges::find_if(
      work.locations,
      [&](const Location& location) { return !gone.contains(location); });
  return found == work.locations.end() ? work.locations.back() : *found;
}

std::optional<Gpu> AgentLocations::assign(OptimizeSubgraph& work,
                                          const DeviceLocations& all) const {
  const auto load = [&](const Location& location) {
    return std::ranges::count_if(agents_, [&](const auto& item) {
      return item.second.location() == location;
    });
  };
  const auto best = std::ranges::min_element(
      all, {}, [&](const auto& item) { return load(item.first); });
  work.locations = {best->first};
  for (const auto& [location, gpu] : all) {
    if (location != best->first && is_alike(gpu, best->second)) {
      work.locations.push_back(location);
    }
  }
  return best->second;
}

void AgentLocations::add(const OptimizeSubgraph& work,
                         const std::optional<Gpu>& gpu) {
  agents_[work.subgraph] = {work, gpu};
}

void AgentLocations::remove(const std::string& subgraph) {
  agents_.erase(subgraph);
}

void AgentLocations::mark_gone(const Location& location) {
  for (auto& [id, agent] : agents_) agent.gone.insert(location);
}

void AgentLocations::extend(const DeviceLocations& all, std::int64_t wait_ms,
                            PendingEffects& effects, Context& context) {
  for (auto& [id, agent] : agents_) {
    auto& known = agent.work.locations;
    const std::size_t before = known.size();
    for (const auto& [location, gpu] : all) {
      if (known.size() >= kLocationsMax) break;
      if (node_of(location).empty() || !is_alike(gpu, agent.gpu)) continue;
      const bool was_gone = agent.gone.erase(location) > 0;
      const bool is_known =
          std::ranges::find(known, location) != known.end() && !was_gone;
      if (!is_known) known.push_back(location);
    }
    if (known.size() > before) context.send(address::agent(id), agent.work);
    if (!agent.is_stranded()) {
      agent.alarm = 0;
    } else if (agent.alarm == 0) {
      agent.alarm = effects.timer(wait_ms, context);
    }
  }
}

std::optional<std::string> AgentLocations::take_stranded(std::uint64_t effect) {
  for (auto& [id, agent] : agents_) {
    if (agent.alarm == 0 || agent.alarm != effect) continue;
    agent.alarm = 0;
    return id;
  }
  return std::nullopt;
}

}  // namespace weft
