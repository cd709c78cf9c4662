// The command that a run was begun by, worked out from what it was told.
#pragma once

#include <string>

#include "messages/run.hpp"

namespace weft {

/// "weft run problem.py --target cuda --variants 2": only what differs from the
/// defaults; words that a shell would change are quoted.
std::string command_text(const RunStart& start);

}  // namespace weft
