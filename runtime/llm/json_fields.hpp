// Fields of a provider's JSON, which may lack or have another type than it
// should: such a field is as good as none.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weft {

/// The object's text by that name; empty: it has none.
std::string text_in(const nlohmann::json& object, const char* name);

/// An object within an object; an empty one where it lacks.
const nlohmann::json& object_in(const nlohmann::json& object, const char* name);

/// A list within an object; an empty one where it lacks.
const nlohmann::json& list_in(const nlohmann::json& object, const char* name);

}  // namespace weft
