// What effects a role has under way.
#include "actors/pending_effects.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json PendingEffects::describe() const {
  static constexpr const char* kStates[] = {"waiting", "working", "stopping",
                                            "resting"};
  auto list = nlohmann::json::array();
  for (const auto& [effect, open] : open_) {
    list.push_back({{"effect", effect},
                    {"id", open.id},
                    {"state", kStates[static_cast<int>(open.state)]},
                    {"port", address::at(open.port, open.location)},
                    {"request", name_of(open.request)},
                    {"resource", open.terms.resource},
                    {"units", open.terms.units},
                    {"ttl_ms", open.terms.ttl_ms},
                    {"priority", open.terms.priority},
                    {"expected_gain", open.terms.expected_gain},
                    {"tries_left", open.tries},
                    {"is_wanted", open.is_wanted},
                    {"avoid", open.avoid},
                    {"locations_lost", open.locations_lost},
                    {"overloads", open.overloads}});
  }
  return list;
}

}  // namespace weft
