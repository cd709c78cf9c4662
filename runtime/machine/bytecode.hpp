// Python's bytecode for PyTorch, where the machine has none. Images often ship
// packages as source only: then every process of a run compiles two thousand
// modules again, which takes three times as long as loading them. weft keeps
// their bytecode in its own cache, filled once by a process that loads PyTorch
// and nothing of the problem's. The processes of a run read it and cannot write
// there: what a candidate left behind would run in the next one. Modules that
// have bytecode beside them load that (python/weft/build/bytecode.py).
#pragma once

#include <functional>
#include <string>

#include "runtime/machine/installation.hpp"

namespace weft {

/// Sets installation.bytecode, if it is needed; fills the folder, if nobody
/// has, and says so first by `say`, for that takes seconds. missing or failed:
/// nothing can be kept here; all works without it, only later.
Result<void> keep_bytecode(Installation& installation,
                           const std::function<void(const std::string&)>& say);

}  // namespace weft
