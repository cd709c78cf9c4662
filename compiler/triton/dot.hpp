// Sums of products on the matrix units: a nest whose first stage folds a · b
// becomes a tiled product, what follows it at the same points its epilogue.
#pragma once

#include <optional>

#include "compiler/triton/generate.hpp"
#include "compiler/triton/kernel.hpp"

namespace weft {

/// A fold of a product, by what its factors depend on. `a` does not know the
/// columns, `b` not the rows; both know the batch and what is folded. Where
/// there is a guard and it does not hold, the product is no term of the sum;
/// one of its factors is 0 there.
struct Contraction {
  ExprId a = 0;
  ExprId b = 0;
  std::optional<ExprId> guard;
  std::vector<LoopVar> batch;
  std::vector<LoopVar> rows;
  std::vector<LoopVar> columns;
  std::vector<LoopVar> folded;
};

/// Nothing where the stage is no such fold, or too thin for matrix units. If in
/// one factor alone neighbours of the sum lie side by side, that is `b`: units
/// read float32 of the second factor so, of the first in any order. Else its
/// rows are longer than its columns; of variables that are longer at another
/// size (growing.hpp) it knows no extent but that they are longer than others.
std::optional<Contraction> contraction_of(
    const Program& program, const Stage& stage,
    const std::vector<LoopVar>& outer, const TritonProductChoices& choices,
    const std::map<int, std::int64_t>& growing = {});

/// Whether neighbours of the sum lie side by side in what the factor reads.
bool lies_along(const ScalarArena& arena, ExprId factor,
                const std::vector<LoopVar>& folded);

/// Whether a stage, before it is scheduled, is one: then only what has no loop
/// of its own may join its nest.
bool is_contraction(const Program& program, const Stage& stage,
                    const TritonProductChoices& choices);

/// Adds the nest's kernel to the module; two where its sums are shared out
/// among programs. Throws Unsupported.
void print_triton_dot(const Schedule& plan, const Nest& nest,
                      const Contraction& contraction,
                      const TritonVariant& variant, const GpuFacts& facts,
                      TritonModule& module);

}  // namespace weft
