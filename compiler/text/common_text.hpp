// What texts that were printed for several sizes have in common: one text in
// which numbers that grow with the size are expressions of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// The text of which `texts` (by the size that each was printed for; three at
/// least, so that every expression is one that a third size confirms) differ in
/// nothing but whole numbers, each a number plus a multiple of the size. The
/// result has `name` in them: "name", "(8 * name)", "(8 * name + 3)".
/// wrong_input tells where the texts differ otherwise.
Result<std::string> common_text(
    const std::map<std::int64_t, std::string>& texts, std::string_view name);

}  // namespace weft
