// Whether the compiler has code for a call, which partition() cuts along.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

/// Whether lowering with those options covers this call (else it stays an
/// extern). Lowers the call alone to find out.
bool can_lower(const Graph& graph, const Node& call,
               const LoweringOptions& options);

}  // namespace weft
