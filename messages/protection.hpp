// What says that code has no sandbox, or needs one.
#pragma once

#include <algorithm>
#include <string_view>

#include "messages/run.hpp"

namespace weft {

/// In Machine::unprotected, instead of the layers' names.
inline constexpr std::string_view kNoSandbox = "everything (--sandbox none)";

/// RunStart::description of a problem that nobody described and that is not
/// trusted: where there is a description, ports run the problem in a sandbox.
inline constexpr std::string_view kUntrustedProblem = "(not trusted)";

inline bool has_no_sandbox(const Machine& machine) {
  return std::ranges::find(machine.unprotected, kNoSandbox) !=
         machine.unprotected.end();
}

}  // namespace weft
