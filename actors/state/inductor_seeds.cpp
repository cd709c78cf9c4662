// For whom Inductor compiles.
#include "actors/inductor_seeds.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json InductorSeeds::describe() const {
  auto asked = nlohmann::json::array();
  for (const auto& [effect, item] : asked_) {
    asked.push_back({{"effect", effect},
                     {"by", item.by},
                     {"subgraph", item.subgraph},
                     {"node", item.node}});
  }
  auto waiting = nlohmann::json::array();
  for (const Waiting& item : waiting_) {
    waiting.push_back({{"by", item.by}, {"work", to_state(item.work)}});
  }
  return {{"asked", std::move(asked)},
          {"waiting", std::move(waiting)},
          {"effects", effects_.describe()}};
}

}  // namespace weft
