// `weft run --train`: kernels for a model's forward and backward pass. Each
// pass is a run; what is done with both is the Python side's (weft.training).
#pragma once

#include "tools/weft/commands.hpp"

namespace weft {

/// Exit codes as of `weft run`. Returns only when the Python side cannot be
/// started.
int train_command(const CommonFlags& common, const RunFlags& flags);

}  // namespace weft
