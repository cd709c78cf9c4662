// Recomputes one row's reductions at each point that reads them. For example, a
// norm before a product with one row is a kernel of one block, and the
// product's kernel waits for it. Each block of the product's kernel reads that
// row anyway.
#pragma once

#include <vector>

#include "compiler/loops/decisions.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Adds copies of the reductions in `before` that `stage` reads to `nest`, if
/// that is faster than a kernel for them. The stage then reads the copies.
/// `nest` is the stage's own and is empty.
void recompute_reductions(Program& program, const std::vector<Nest>& before,
                          Nest& nest, Stage& stage, const LoopFacts& facts,
                          Decisions& decisions);

/// Drops nests whose results were recomputed wherever they are read.
void drop_recomputed(const Program& program, std::vector<Nest>& nests);

}  // namespace weft
