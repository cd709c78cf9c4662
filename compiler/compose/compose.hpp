// Composes verified kernels into one module: the text of model_new.py.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "compiler/compose/target.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// A selected kernel: its text and what builds and loads it.
struct ComposedKernel {
  std::string source;
  std::string variant;
  const Target* target;  ///< never null
};

/// model_new.py: the problem file's text with `Model` renamed to `ModelNew`
/// (constructor, parameters and their order unchanged) and a forward() that
/// runs the plan: kernels where `kernels` (by subgraph id) has one, ATen calls
/// elsewhere. The module is self-contained: it embeds the C++ sources, builds
/// them on first import into a per-user cache, and needs only torch and g++.
///
/// Inputs of another shape or dtype than captured, and a model whose modules
/// have changed, go to the original forward, kept as `forward_reference`.
/// Without kernels, forward() is the original's. If the run's target is given,
/// the plan's fused-attention calls are used even without a kernel.
Result<std::string> compose_source(
    std::string_view problem_source, const Plan& plan,
    const std::map<std::string, ComposedKernel>& kernels,
    const Target* target = nullptr);

/// kernel.py for one subgraph: `kernel_function(*tensors)` around the same
/// embedded source and loader, for test_kernel.py and for use by hand.
std::string kernel_module_source(const Subgraph& subgraph,
                                 const ComposedKernel& kernel);

}  // namespace weft
