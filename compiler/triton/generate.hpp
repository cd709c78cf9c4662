// The `triton` target: turns a subgraph into a Python file of Triton kernels,
// in several variants for the verification workers to choose from. Pure.
#pragma once

#include <string>
#include <vector>

#include "compiler/compose/target.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/loops/gpu_facts.hpp"

namespace weft {

/// Whether the target has code for this call (else it stays an extern).
Decision triton_can_lower(const Graph& graph, const Node& call,
                          const CutOptions& cut);

/// At least one variant for every subgraph that partition() makes along
/// triton_can_lower; the one expected to be fastest first; at most
/// `variants_max`; no two equal texts. A source is a Python module with INPUTS
/// (shape, stride and dtype of each input), its @triton.jit kernels, and
///   def kernel_function(in0, …)
/// that allocates the outputs, launches, and returns them. Where the graph
/// grows, its last parameter is `batch` (of two symbols its last ones are
/// `batch` and `sequence`), and so it is of its kernels, but for a constant:
/// the type of positions. Then inputs_at(batch) takes the place of INPUTS, and
/// BATCHES says for which a package is built (docs/reference/gpu-package.md).
Result<std::vector<KernelSource>> generate_triton(
    const Subgraph& subgraph, const GpuFacts& facts,
    const GenerateOptions& options);

/// All of this as an entry of compiler/targets.cpp's list.
Target triton_target();

}  // namespace weft
