// Whether 32 bits hold the positions in memory that a loop nest computes with.
#pragma once

#include <vector>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Whether 32 bits hold it, and what is added where a tile reaches too far.
bool fits_32_bits(const Index& index);

/// All positions in a nest's memory, those that it computes with, and how far
/// its loops count.
std::vector<Index> positions_of(const Program& program, const Nest& nest);

/// Whether positions in that nest need 64 bits.
bool needs_wide(const Program& program, const Nest& nest);

}  // namespace weft
