// The Python around a subgraph's Triton kernels: what they are made for, and
// kernel_function, which allocates and launches (generate.hpp has the
// contract).
#pragma once

#include <string>

#include "compiler/graph/subgraph.hpp"
#include "compiler/triton/kernel.hpp"

namespace weft {

std::string triton_source(const Subgraph& subgraph, const std::string& variant,
                          const TritonModule& module);

/// What a source for any sizes ends in: at which ones a package of it, which is
/// built ahead of time, is launched. They are those that it is judged at.
std::string triton_batches(const Sizes& sizes);

}  // namespace weft
