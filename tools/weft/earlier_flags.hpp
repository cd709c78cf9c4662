// Command-line flags under the names that they had in earlier versions of weft.
// They still work, and a line on the standard error says today's name.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Today's name of an option of `weft run`, without its "--".
std::string option_now(const std::string& name);

/// The command line in today's names; `say` gets a line for each earlier name.
std::vector<std::string> with_current_flags(
    std::vector<std::string> words, void (*say)(const std::string& line));

}  // namespace weft
