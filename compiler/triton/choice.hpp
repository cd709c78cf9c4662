// Which sums of products the `triton` target takes from the vendor's library.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Whether code of our own has a chance against the library for this call. A
/// lost piece goes back to the framework with all that was fused to it, so
/// what would lose is better left out of the piece.
bool competes_with_library(const Graph& graph, const Node& call);

}  // namespace weft
