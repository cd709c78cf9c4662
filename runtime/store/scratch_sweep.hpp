// Scratch folders in memory whose owners were killed (run_directory.hpp).
#pragma once

namespace weft {

/// Removes them.
void sweep_scratch();

}  // namespace weft
