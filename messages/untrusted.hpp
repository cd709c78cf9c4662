// Checks of paths that somebody else wrote: in a journal, a wire message, a
// configuration file or a package. Code that opens such a path checks it first.
#pragma once

#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// A relative path that stays inside the folder it is joined to, whatever links
/// there are not considered. wrong_input names it and says why it does not.
Result<void> check_path_inside(std::string_view path);

/// The same of a single name: no folder in it.
Result<void> check_file_name(std::string_view name);

}  // namespace weft
