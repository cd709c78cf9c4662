// What a sandbox must show so that CUDA works inside it.
#pragma once

#include "runtime/sandbox/sandbox.hpp"

namespace weft {

/// The device, the driver's libraries where the system's own folders lack
/// them, and the processes that CUDA and its compilers need.
void show_gpu(SandboxRequest& sandbox);

/// The locks of devices and of their memory, which are made where they are
/// missing (python/weft/device/gpu_lock.py). Not for candidates: who holds one
/// keeps others waiting.
void show_gpu_locks(SandboxRequest& sandbox);

}  // namespace weft
