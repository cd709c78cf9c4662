// Which sums of products the `triton` target takes from the vendor's library.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Whether the call is ours in that cut. Where only timing can tell, both cuts
/// are made (partition_candidates). A lost piece goes back to PyTorch
/// with all that was fused to it, so what would lose is left out of the piece.
Decision competes_with_library(const Graph& graph, const Node& call,
                               const CutOptions& cut);

}  // namespace weft
