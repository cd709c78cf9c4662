// Which texts of roles and compiler this weft was built of. Written by
// cmake/DecisionsVersion.cmake.
#pragma once

#include <string_view>

namespace weft {

/// Twelve hexadecimal digits: equal ones decide alike.
std::string_view decisions_version();

}  // namespace weft
