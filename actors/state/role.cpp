// A role that keeps nothing.
#include "actors/role.hpp"

#include <nlohmann/json.hpp>

namespace weft {

nlohmann::json Role::describe() const { return nlohmann::json::object(); }

}  // namespace weft
