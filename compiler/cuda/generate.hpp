// The `cuda` target: turns a subgraph into a file of CUDA kernels, in several
// variants for the verification workers to choose from. Pure.
#pragma once

#include <string>
#include <vector>

#include "compiler/compose/target.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/loops/gpu_facts.hpp"

namespace weft {

/// Whether the target has code for this call (else it stays an extern).
Decision cuda_can_lower(const Graph& graph, const Node& call);

/// Variants of a subgraph, the one expected to be fastest first; at most
/// `variants_max`; no two equal texts. A source says in a comment at its top
/// what is launched (docs/explanation/code-generation.md). wrong_input where
/// the target has no code for it: what another target would take, products for
/// one.
Result<std::vector<KernelSource>> generate_cuda(const Subgraph& subgraph,
                                                const GpuFacts& facts,
                                                const GenerateOptions& options);

/// All of this as an entry of compiler/targets.cpp's list.
Target cuda_target();

}  // namespace weft
