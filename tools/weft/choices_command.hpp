// `weft choices`: what decides speed alone
// (docs/explanation/code-generation.md).
#pragma once

#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

/// A line a choice whose name has `part` in it: its value, bounds, unit and
/// source. 2 where there is none.
int choices_command(const CommonFlags& common, const std::string& part);

}  // namespace weft
