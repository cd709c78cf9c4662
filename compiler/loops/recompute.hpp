// Recomputing one row's reductions in each point that reads them. A norm before
// a product with one row is a kernel of one block, for which the product's
// kernel waits; each of that kernel's blocks reads the row anyway.
#pragma once

#include <map>
#include <set>
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

/// The stage with each of these results read from another buffer.
Stage with_buffers(Program& program, Stage stage,
                   const std::map<int, int>& buffers);

/// Drops nests whose results were recomputed wherever they are read.
void drop_recomputed(const Program& program, std::vector<Nest>& nests);

}  // namespace weft
