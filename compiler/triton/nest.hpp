// Turns one loop nest of a schedule into Triton kernels.
#pragma once

#include "compiler/loops/pass.hpp"
#include "compiler/triton/generate.hpp"
#include "compiler/triton/kernel.hpp"

namespace weft {

/// Adds the nest's kernel to the module; two kernels where its reductions are
/// split.
void print_triton_nest(const Schedule& plan, const Nest& nest,
                       const TritonVariant& variant, const GpuFacts& facts,
                       TritonModule& module);

}  // namespace weft
