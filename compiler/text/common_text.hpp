// What texts that were printed for several sizes have in common: one text in
// which numbers that are symbolic with the sizes are expressions of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "compiler/graph/symbolic_shapes.hpp"
#include "messages/result.hpp"

namespace weft {

/// The text of which `texts` (by the sizes that each was printed for; as many
/// at least as samples_min() tells, so that another confirms every expression)
/// differ in nothing but whole numbers, each an integer that is symbolic as
/// symbolic_shapes.hpp tells. The result has the symbols' names in them:
/// "name", "(8 * name)",
/// "(8 * name + 3)", "(name * other)", "(3 * name + 8 * name * other - 2)",
/// "(name * name)".
/// wrong_input tells where the texts differ otherwise.
Result<std::string> common_text(const std::map<Sizes, std::string>& texts,
                                std::span<const std::string_view> names);

}  // namespace weft
