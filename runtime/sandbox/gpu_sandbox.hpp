// What a sandbox must show so that CUDA works inside it.
#pragma once

#include "runtime/sandbox/sandbox.hpp"

namespace weft {

/// The device, the driver's libraries where the system's own folders lack
/// them, and the processes that CUDA and its compilers need.
void show_gpu(SandboxRequest& sandbox);

/// The locks of devices and of their memory (python/weft/device/gpu_lock.py).
/// Missing ones are made. Not for candidates: a process that holds a lock keeps
/// others waiting.
void show_gpu_locks(SandboxRequest& sandbox);

}  // namespace weft
