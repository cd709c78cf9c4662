// What products, convolutions and attention take: in a kernel of ours with what
// is fused to it, and as the vendor library's operator with kernels of ours
// around it. Microseconds by compiler/choices/cost.hpp.
#pragma once

#include <optional>

#include "compiler/choices/cost.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

struct ContractionCost {
  TimeRange ours;
  TimeRange library;
};

/// Nothing where the call is no sum of products, or one of unknown size.
std::optional<ContractionCost> contraction_cost(const Graph& graph,
                                                const Node& call,
                                                const CutOptions& cut);

/// Whose the call is: what the model of cost can tell, else what timing will.
enum class Whose { ours, contested, library };
Whose whose(const Graph& graph, const Node& call, const CutOptions& cut);

/// Whether a convolution of the library's may be as fast with its channels
/// where they are as with channels innermost, where that takes copies of so
/// many bytes that no other kernel does.
bool layout_is_contested(const Graph& graph, const Node& call,
                         double copied_bytes, const CutOptions& cut);

/// Whether at most one call of the graph computes anything.
bool is_alone(const Graph& graph);

}  // namespace weft
