// The forward() of a composed module, as Python text.
#pragma once

#include <set>
#include <string>

#include "compiler/compose/problem_source.hpp"
#include "compiler/compose/target.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Where forward() runs the plan: the method, and what must stand at module
/// level before and after the class. Kernels are called as _weft_<id>.
struct ForwardSource {
  std::string before;
  std::string method;
  std::string after;
};

/// `target`: what the kernels are for; it says where their tensors lie.
ForwardSource forward_source(const Plan& plan,
                             const std::set<std::string>& kernel_ids,
                             const ProblemSource& problem,
                             const Target& target);

}  // namespace weft
