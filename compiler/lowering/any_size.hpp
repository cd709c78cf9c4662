// Whether a graph that grows is the same loops at every size.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

/// wrong_input where its loops, lowered at the sample sizes, at 2 and at more
/// than a million, differ in more than numbers that grow: an index was
/// simplified by how long a loop is. Or where a fold or a scan walks the size:
/// its sums are taken in pieces, and divided by counts, of one length.
Result<void> check_any_size(const Graph& graph, const LoweringOptions& options);

/// Whether two graphs, the same at two sizes, fold or scan what is longer in
/// one of them: a piece with such a call has no code for any size. With all the
/// rules of lowering that there are.
bool walk_growing(const Graph& one, const Graph& other);

}  // namespace weft
