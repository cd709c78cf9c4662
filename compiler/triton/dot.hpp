// Sums of products on the matrix units. A nest whose first stage is a sum of a
// · b becomes a tiled matrix product; later stages at the same points become
// its epilogue.
#pragma once

#include <optional>

#include "compiler/loops/kernel_reasons.hpp"
#include "compiler/triton/generate.hpp"
#include "compiler/triton/kernel.hpp"

namespace weft {

/// A sum of products, by the variables that its factors depend on. `a` does not
/// depend on the columns, `b` not on the rows; both depend on the batch and on
/// the reduced variables. Where a guard does not hold, the product is not a
/// term of the sum; one of its factors is 0 there.
struct Contraction {
  ExprId a = 0;
  ExprId b = 0;
  std::optional<ExprId> guard;
  std::vector<LoopVar> batch;
  std::vector<LoopVar> rows;
  std::vector<LoopVar> columns;
  std::vector<LoopVar> reduced;
};

/// Empty if the stage is no such sum, or too thin for the matrix units. If the
/// reduced elements are contiguous in one factor only, that factor becomes `b`:
/// the matrix units read float32 of the second factor that way, and of the
/// first in any order. Otherwise rows are at least as long as columns. Symbolic
/// extents (symbolic_loops.hpp) count as longer than any other.
std::optional<Contraction> contraction_of(
    const Program& program, const Stage& stage,
    const std::vector<LoopVar>& outer, const TritonProductChoices& choices,
    const std::map<int, std::int64_t>& symbolic_loops = {});

/// True if the reduced elements are contiguous in what the factor reads.
bool lies_along(const ScalarArena& arena, ExprId factor,
                const std::vector<LoopVar>& reduced);

/// True if an unscheduled stage is such a sum. Only stages that need no
/// other loop may join its nest.
bool is_contraction(const Program& program, const Stage& stage,
                    const TritonProductChoices& choices);

/// Adds the nest's kernel to the module; two kernels with split-k. Returns why
/// it has its tile. Throws Unsupported.
TileReason print_triton_dot(const Schedule& plan, const Nest& nest,
                            const Contraction& contraction,
                            const TritonVariant& variant, const GpuFacts& facts,
                            TritonModule& module);

}  // namespace weft
