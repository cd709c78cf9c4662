// The `cpu` target: turns a subgraph into C++/OpenMP source, in several
// variants for the verification workers to choose from. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compose/target.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/loops/loop_facts.hpp"
#include "compiler/lowering/lowering_options.hpp"

namespace weft {

/// Whether the compiler can lower this call (else it stays an extern).
Decision can_lower(const Graph& graph, const Node& call);

/// At least one variant for every subgraph partition() makes; the one expected
/// to be fastest first; at most `variants_max`; no two equal texts. A source is
/// C++17 and exports
///   extern "C" void kernel_function(const T0* in0, …, U0* out0, …)
/// with the subgraph's inputs, then its outputs, in order; C++ element types;
/// outputs are allocated by the caller with the graph's shape and stride.
/// The options are for what the target does not lower by default. Where the
/// graph grows, the last parameters are its sizes: `const int64_t batch`, and
/// `const int64_t sequence` where a second is a symbol.
Result<std::vector<KernelSource>> generate_cpu(const Subgraph& subgraph,
                                               const LoopFacts& facts,
                                               int variants_max,
                                               LoweringOptions options = {});

/// The g++ arguments that build it into a shared library, without -o and
/// without file names.
std::vector<std::string> cpu_build_flags();

/// All of this as an entry of compiler/targets.cpp's list.
Target cpu_target();

/// Bytes that must move at least (each input read once, each output written
/// once): the floor of a memory-bound kernel.
std::int64_t bytes_floor(const Subgraph& subgraph);

}  // namespace weft
