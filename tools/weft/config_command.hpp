// `weft config`: which settings hold, and who said so.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/commands.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace weft {

/// `verb` has the flags of a run, with all settings applied; `typed` are those
/// that came from the command line: "--jobs".
int config_command(const CommonFlags& common, CLI::App& verb,
                   const std::vector<std::string>& typed);

}  // namespace weft
