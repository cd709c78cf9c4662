// What roles hold, as JSON for Role::describe: messages and parts of them under
// their field names.
#pragma once

#include <msgpack.hpp>
#include <nlohmann/json.hpp>

namespace weft {

/// Of anything that travels in a message. Keys of maps are texts.
template <class T>
nlohmann::json to_state(const T& value) {
  msgpack::sbuffer bytes;
  msgpack::pack(bytes, value);
  auto state = nlohmann::json::from_msgpack(
      bytes.data(), bytes.data() + bytes.size(), true, false);
  return state.is_discarded() ? nlohmann::json() : state;
}

/// An object of a map whose values are parts of messages.
template <class Map>
nlohmann::json map_to_state(const Map& map) {
  auto state = nlohmann::json::object();
  for (const auto& [key, value] : map) state[key] = to_state(value);
  return state;
}

}  // namespace weft
