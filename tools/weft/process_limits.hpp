// The limits that a shell or a batch system sets on this process, as far as
// weft and PyTorch cannot work below them.
#pragma once

#include <cstdint>

#include "messages/result.hpp"

namespace weft {

/// Raises the soft limits to the hard ones, then compares those with what a run
/// needs. missing: which limit it is, what it is set to, what is needed and how
/// to raise it; or that TMPDIR names no folder that can be written.
Result<void> check_process_limits();

}  // namespace weft
