// What is told of a machine whose untrusted code has no sandbox.
#pragma once

#include <algorithm>
#include <string_view>

#include "messages/run.hpp"

namespace weft {

/// In Machine::unprotected, instead of the layers' names.
inline constexpr std::string_view kNoSandbox = "everything (--sandbox none)";

inline bool has_no_sandbox(const Machine& machine) {
  return std::ranges::find(machine.unprotected, kNoSandbox) !=
         machine.unprotected.end();
}

}  // namespace weft
