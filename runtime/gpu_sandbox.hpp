// What a sandbox must show so that CUDA works inside it.
#pragma once

#include "runtime/sandbox.hpp"

namespace weft {

/// The device, the driver's libraries where the system's own folders lack
/// them, and the processes that CUDA and its compilers need.
void show_gpu(SandboxRequest& sandbox);

}  // namespace weft
