// Whether untrusted code has a sandbox at all.
#pragma once

#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// Set to "none" by `--sandbox none`, for this process and all that it starts.
inline constexpr const char* kSandboxModeVariable = "WEFT_SANDBOX_MODE";

/// Commands get limits, and nothing of the machine is kept from them: for
/// people who trust what they run. Off unless a person asks for it.
bool is_sandbox_off();

/// wrong_input where the sandbox is off: `what` runs in one or not at all.
Result<void> check_has_sandbox(std::string_view what);

}  // namespace weft
