// The launcher's second half, already in the box: gives up the last rights and
// becomes the command.
#pragma once

#include "runtime/sandbox/order.hpp"

namespace weft {

/// What the first half leaves open for the second. Neither reaches the command.
constexpr int kReadyFd = 3;   ///< 'S' just before exec, then why exec failed
constexpr int kStderrFd = 4;  ///< the command's stderr; 2 is for complaints

/// The first byte on kReadyFd once the box stands.
constexpr char kStarted = 'S';

/// Returns only when the command could not be started, with an exit code.
int run_inside(const SandboxOrder& order);

}  // namespace weft
