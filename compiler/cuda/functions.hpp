// The functions of scalar expressions as CUDA spells them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

/// The call's text, where CUDA has the function for elements of that type (of
/// the arguments, where the result is a truth value). Adds to `helpers` those
/// functions of our own that it needs.
std::optional<std::string> cuda_call(const std::string& function, DType dtype,
                                     const std::vector<std::string>& arguments,
                                     std::set<std::string>& helpers);

/// The definitions of those helpers, and of what they call in turn.
std::string cuda_helpers(const std::set<std::string>& helpers);

}  // namespace weft
