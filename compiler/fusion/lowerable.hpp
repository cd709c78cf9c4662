// Whether the compiler has code for a call, which partition() cuts along.
#pragma once

#include <optional>

#include "compiler/choices/reasons.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

/// The call as a graph of its own: what it reads are inputs. Of several
/// results, those are there that are read. Nothing if it reads what there is
/// not.
std::optional<Graph> single_call_graph(const Graph& graph, const Node& call);

/// Whether lowering with those options covers this call (else it stays an
/// extern). Lowers the call alone to find out.
Decision can_lower(const Graph& graph, const Node& call,
                   const LoweringOptions& options);

}  // namespace weft
