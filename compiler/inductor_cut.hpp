// A cut along nothing but what Inductor cannot compile.
#pragma once

#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Plan::way of that cut, and of the others beside it.
inline constexpr const char* kInductorsFusion = "Inductor's fusion";
inline constexpr const char* kOurFusion = "weft's fusion";

/// Adds that cut to the plan's others, unless one of them has the same pieces.
/// Its module is Inductor's code for as much as can be in one piece.
void add_inductor_cut(const Graph& model, const Target& target, CutOptions cut,
                      Plan& plan);

}  // namespace weft
