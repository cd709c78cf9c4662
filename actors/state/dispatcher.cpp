// Which subgraphs are at work, and which have their verdict.
#include "actors/dispatcher.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json Dispatcher::describe() const {
  auto outcomes = nlohmann::json::object();
  for (const auto& [id, done] : done_) outcomes[id] = done.outcome;
  auto subgraphs = nlohmann::json::array();
  for (const Subgraph& subgraph : plan_.subgraphs) {
    subgraphs.push_back(subgraph.id);
  }
  return {
      {"plan", dispatch_ ? nlohmann::json(dispatch_->plan) : nlohmann::json()},
      {"subgraphs", std::move(subgraphs)},
      {"started", next_},
      {"outcomes", std::move(outcomes)},
      {"offers", map_to_state(offers_)},
      {"placed", placed_},
      {"errands", errands_.describe()},
      {"is_over", over_}};
}

}  // namespace weft
