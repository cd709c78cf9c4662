#include "runtime/llm/json_fields.hpp"

#include <nlohmann/json.hpp>

namespace weft {

using nlohmann::json;

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

const json& object_in(const json& object, const char* name) {
  static const json nothing = json::object();
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : nothing;
}

const json& list_in(const json& object, const char* name) {
  static const json nothing = json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : nothing;
}

}  // namespace weft
