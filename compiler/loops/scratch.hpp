// Where the results of a schedule's nests are: in registers, or in scratch.
#pragma once

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Results read in their own nest stay in registers; those of other nests are
/// in scratch: row-major, or, if `coalesced`, with the dimension innermost
/// along which neighbouring threads make them. Fills `plan.spilled`.
void lay_out_results(Schedule& plan, bool coalesced);

}  // namespace weft
