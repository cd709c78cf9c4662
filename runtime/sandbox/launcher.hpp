// The launcher program `weft-sandbox`: where it lies, and one run of it with
// what it printed and what it told. The part of the sandbox that is in weft's
// own process.
#pragma once

#include <filesystem>
#include <string>

#include "messages/result.hpp"
#include "runtime/sandbox/order.hpp"

namespace weft {

/// $WEFT_SANDBOX, else the one beside the running program.
Result<std::filesystem::path> find_sandbox_launcher();

struct LauncherRun {
  std::string out;     ///< the first output_bytes
  std::string err;     ///< likewise
  std::string status;  ///< what the launcher told, e.g. "exited 0"
};

/// Blocks until the launcher has ended and with it all that it started.
/// Spawned, never forked: a fork of a large process takes tens of ms.
Result<LauncherRun> run_launcher(const std::filesystem::path& launcher,
                                 SandboxOrder order);

}  // namespace weft
