// Whom the library's answers are for.
#include "actors/library_seeds.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json LibrarySeeds::describe() const {
  auto asked = nlohmann::json::array();
  for (const auto& [effect, item] : asked_) {
    asked.push_back(
        {{"effect", effect}, {"by", item.by}, {"subgraph", item.subgraph}});
  }
  return {{"asked", std::move(asked)},
          {"noted", noted_},
          {"effects", effects_.describe()}};
}

}  // namespace weft
