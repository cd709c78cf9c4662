// Estimated times of products, convolutions and attention: in a generated
// kernel with what is fused to it, and as a vendor-library call with generated
// kernels around it. In microseconds, by compiler/choices/cost.hpp.
#pragma once

#include <optional>
#include <string>

#include "compiler/choices/cost.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

struct ContractionCost {
  TimeRange generated;
  TimeRange vendor;
};

/// Empty if the call is no sum of products or its size is unknown.
std::optional<ContractionCost> contraction_cost(const Graph& graph,
                                                const Node& call,
                                                const CutOptions& cut);

/// Implementation of a call by the cost model. `undecided`: the ranges overlap,
/// so both partitions are built and benchmarked.
enum class ContractionChoice { generated, undecided, vendor };

/// The choice, and the estimated times that it was made by.
struct ContractionDecision {
  ContractionChoice choice = ContractionChoice::generated;
  std::string reason;
  // NOLINTNEXTLINE(google-explicit-constructor): it is that choice.
  operator ContractionChoice() const { return choice; }
};
ContractionDecision choose_contraction(const Graph& graph, const Node& call,
                                       const CutOptions& cut);

/// True if a vendor convolution in the captured layout may be as fast as with
/// channels innermost, given the bytes of layout copies that no other kernel
/// does.
bool layout_is_undecided(const Graph& graph, const Node& call,
                         double copied_bytes, const CutOptions& cut);

/// True if at most one call of the graph computes anything.
bool is_single_call(const Graph& graph);

}  // namespace weft
