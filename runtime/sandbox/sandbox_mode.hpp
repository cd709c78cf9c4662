// Whether untrusted code has a sandbox at all.
#pragma once

namespace weft {

/// Set to "none" by `--sandbox none`, for this process and all that it starts.
inline constexpr const char* kSandboxModeVariable = "WEFT_SANDBOX_MODE";

/// In Machine::unprotected, instead of the layers' names.
inline constexpr const char* kNoSandbox = "everything (--sandbox none)";

/// Commands get limits, and nothing of the machine is kept from them: for
/// people who trust what they run. Off unless a person asks for it.
bool is_sandbox_off();

}  // namespace weft
