// JSON and msgpack that somebody else wrote, as a JSON value. A value that
// nests deeper than any of weft's own is discarded: nlohmann's library copies,
// prints and reads msgpack by recursion, and would use up the stack.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "messages/untrusted.hpp"

namespace weft {

/// Discarded (is_discarded()) if it is no JSON, or nests too deep. Never
/// throws.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (!is_shallow_json(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// The same of msgpack.
template <class Json = nlohmann::json>
Json json_of_msgpack(std::string_view bytes) {
  if (!is_shallow_msgpack(bytes)) return Json(Json::value_t::discarded);
  return Json::from_msgpack(bytes, /*strict=*/true, /*allow_exceptions=*/false);
}

}  // namespace weft
