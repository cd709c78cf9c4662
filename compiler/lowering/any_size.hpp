// Whether a symbolic graph is the same loops at all sizes.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

/// wrong_input where its loops, lowered at the sample sizes, at 2 (or 2 and 3)
/// and at more than a million (or that and 100,003), differ in more than
/// numbers that are symbolic: an index was simplified by how long a loop is. Or
/// where it adds in place along the size, or finds a place in it. Or where no
/// input says what a size is.
Result<void> check_any_size(const Graph& graph, LoweringOptions options);

/// Whether two graphs, the same at two sizes, add what is longer in one of
/// them in place, or find a place in it: a piece with such a call
/// has no code for any size. With all the rules of lowering that there are.
bool positions_are_symbolic(const Graph& graph, const Graph& other);

}  // namespace weft
