// The conditions under which a composed forward() may run the captured
// computation; under any other it hands over to the original.
#pragma once

#include <string>
#include <vector>

#include "compiler/compose/pass_on_source.hpp"
#include "compiler/compose/problem_source.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

/// Python conditions, to be joined by `and`, in an order in which each may
/// rely on the ones before. They mention the arguments of forward().
std::vector<Condition> argument_conditions(const Graph& model,
                                           const ProblemSource& problem);

/// "_weft_fits(<expression>, shape, stride, dtype)".
std::string fits_condition(const std::string& expression,
                           const TensorType& type);

/// "a.b.c" → "a", "b", "c".
std::vector<std::string> parts_of(const std::string& target);

/// `self.layers`, then getattr(…, "0") where a part is no identifier.
std::string attribute_path(const std::string& self, const std::string& target);

}  // namespace weft
