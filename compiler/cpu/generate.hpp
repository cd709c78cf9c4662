// The `cpu` target: turns a subgraph into C++/OpenMP source, in several
// variants for the verification workers to choose from. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/lowering/lowering_options.hpp"
#include "compiler/targets.hpp"

namespace weft {

struct Program;
struct Stage;

/// What the code generator may know of the machine it builds for.
struct CpuFacts {
  int cores = 1;
  int vector_bytes = 32;             ///< widest SIMD register
  std::int64_t l1_bytes = 32 << 10;  ///< of one core
  std::int64_t l2_bytes = 1 << 20;   ///< of one core
  /// Folds over at most so many elements are never shared among threads.
  std::int64_t whole_row = 0;
  /// Whether what a row's first pass read is at hand in its next.
  bool holds_rows = false;
  /// Stages with code of their own: only what follows them at the same points,
  /// without a loop, joins their nest. Null: none.
  bool (*is_alone)(const Program&, const Stage&) = nullptr;
};

/// Whether the compiler can lower this call (else it stays an extern).
bool can_lower(const Graph& graph, const Node& call);

/// At least one variant for every subgraph partition() makes; the one expected
/// to be fastest first; at most `variants_max`; no two equal texts. A source is
/// C++17 and exports
///   extern "C" void kernel_function(const T0* in0, …, U0* out0, …)
/// with the subgraph's inputs, then its outputs, in order; C++ element types;
/// outputs are allocated by the caller with the graph's shape and stride.
/// The options are for what the target does not lower by default.
Result<std::vector<KernelSource>> generate_cpu(const Subgraph& subgraph,
                                               const CpuFacts& facts,
                                               int variants_max,
                                               LoweringOptions options = {});

/// The g++ arguments that build it into a shared library, without -o and
/// without file names.
std::vector<std::string> cpu_build_flags();

/// All of this as an entry of compiler/targets.hpp's list.
Target cpu_target();

/// Bytes that must move at least (each input read once, each output written
/// once): the floor of a memory-bound kernel.
std::int64_t bytes_floor(const Subgraph& subgraph);

}  // namespace weft
