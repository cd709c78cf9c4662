// What is scarce, who has it and who waits for it.
#include "actors/broker.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

using nlohmann::json;

nlohmann::json Broker::describe() const {
  json pools = json::array();
  json queues = json::array();
  for (const auto& [name, resource] : resources_) {
    for (const auto& [location, pool] : resource.pools) {
      json row = {{"resource", name},
                  {"location", location},
                  {"capacity", pool.capacity},
                  {"used", pool.used}};
      const auto reserved = resource.reserved.find(location);
      if (reserved != resource.reserved.end()) {
        row["reserved_for"] = reserved->second;
      }
      pools.push_back(std::move(row));
    }
    for (const auto& [group, queue] : resource.queues) {
      for (const Waiting& waiting : queue) {
        queues.push_back({{"resource", name},
                          {"group", group},
                          {"holder", waiting.ticket.first},
                          {"ticket", waiting.ticket.second},
                          {"since_us", waiting.since_us},
                          {"units", waiting.request.units},
                          {"memory_bytes", waiting.request.memory_bytes},
                          {"priority", waiting.request.priority},
                          {"expected_gain", waiting.request.expected_gain},
                          {"locations", waiting.request.locations},
                          {"avoid", waiting.request.avoid},
                          {"capability", waiting.request.capability},
                          {"patience", waiting.patience}});
      }
    }
  }
  json leases = json::array();
  for (const auto& [ticket, lease] : leases_) {
    leases.push_back({{"holder", ticket.first},
                      {"ticket", ticket.second},
                      {"resource", lease.resource},
                      {"location", lease.location},
                      {"units", lease.units},
                      {"memory_bytes", lease.memory},
                      {"timer", lease.timer},
                      {"is_expired", lease.expired}});
  }
  json timers = json::array();
  for (const auto* of : {&timers_, &calls_, &patience_}) {
    for (const auto& [timer, ticket] : *of) {
      timers.push_back({{"timer", timer},
                        {"is_of_a_call", of == &calls_},
                        {"is_patience", of == &patience_},
                        {"holder", ticket.first},
                        {"ticket", ticket.second}});
    }
  }
  return {{"pools", std::move(pools)},     {"queues", std::move(queues)},
          {"leases", std::move(leases)},   {"waiting", waiting_},
          {"queue_max", queue_max_},       {"grace_ms", grace_ms_},
          {"capabilities", capabilities_}, {"timers", std::move(timers)},
          {"next_timer", next_timer_},     {"llm_timer", llm_timer_},
          {"llm_again_us", llm_again_us_}, {"llm", llm_.describe()}};
}

}  // namespace weft
