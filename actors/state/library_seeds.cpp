// Whom the library's answers are for.
#include "actors/library_seeds.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json LibrarySeeds::describe() const {
  auto asked = nlohmann::json::array();
  for (const auto& [errand, one] : asked_) {
    asked.push_back(
        {{"errand", errand}, {"by", one.by}, {"subgraph", one.subgraph}});
  }
  return {{"asked", std::move(asked)},
          {"noted", noted_},
          {"errands", errands_.describe()}};
}

}  // namespace weft
