// For whom Inductor compiles.
#include "actors/inductor_seeds.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json InductorSeeds::describe() const {
  auto asked = nlohmann::json::array();
  for (const auto& [errand, one] : asked_) {
    asked.push_back({{"errand", errand},
                     {"by", one.by},
                     {"subgraph", one.subgraph},
                     {"node", one.node}});
  }
  auto waiting = nlohmann::json::array();
  for (const Waiting& one : waiting_) {
    waiting.push_back({{"by", one.by}, {"work", to_state(one.work)}});
  }
  return {{"asked", std::move(asked)},
          {"waiting", std::move(waiting)},
          {"errands", errands_.describe()}};
}

}  // namespace weft
