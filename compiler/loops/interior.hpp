// Interior tiles: those whose windows lie wholly inside of what they read. In
// them no load needs its guard, so that neighbours are read in vectors.
// (Compilers call it index-set splitting.)
#pragma once

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Gives nests that reduce a window in columns their `interior`: the same
/// stages where the guards of their loads hold, and the bounds that decide it.
/// Guards that are no bounds of affine positions stay.
void find_interiors(Schedule& plan);

}  // namespace weft
