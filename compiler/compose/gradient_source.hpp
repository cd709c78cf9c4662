// How a composed forward() gives its results a gradient: backward() computes
// the original forward() again, and derives that.
#pragma once

#include <map>
#include <string>

#include "compiler/graph/graph.hpp"

namespace weft {

/// Once a module: _weft_with_gradient() and what it calls, with the facts of
/// the graph that it goes by. `read`: of the model's own tensors that forward()
/// reads (_weft_names), by target, their nodes. The graph writes no argument.
std::string gradient_source(const Graph& model,
                            const std::map<std::string, std::string>& read);

}  // namespace weft
