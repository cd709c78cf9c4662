// The launcher's first half: builds the box, watches over its time, memory and
// files, takes it away whatever happens, and tells how it ended.
#pragma once

#include "runtime/sandbox/order.hpp"

namespace weft {

/// Exit codes beside the command's own, for those who start the launcher
/// through sandbox_prefix(). 128 + n stands for signal n.
constexpr int kExitOutOfMemory = 123;
constexpr int kExitTimedOut = 124;
constexpr int kExitNotStarted = 125;

int supervise(const SandboxOrder& order);

}  // namespace weft
