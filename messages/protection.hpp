// Marks of a machine without a sandbox, and of a problem that needs one.
#pragma once

#include <algorithm>
#include <string_view>

#include "messages/run.hpp"

namespace weft {

/// In Machine::unprotected, instead of the layers' names.
inline constexpr std::string_view kNoSandbox = "everything (--sandbox none)";

/// Whether the problem runs in a sandbox only: a language model wrote it from a
/// description, or the user does not trust it.
inline bool is_problem_untrusted(const RunStart& start) {
  return start.untrusted_problem || !start.description.empty();
}

inline bool has_no_sandbox(const Machine& machine) {
  return std::ranges::find(machine.unprotected, kNoSandbox) !=
         machine.unprotected.end();
}

}  // namespace weft
