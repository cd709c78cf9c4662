// Another cut of a model that is cut already: along groups of its calls that
// somebody proposes.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Calls of the plan's model, by name, that are to be one piece each.
using CallGroups = std::vector<std::vector<std::string>>;

/// A call of a group is in no other; results of a call with several stay with
/// it. Pieces of `plan` of which no call is named stay as they are; what is
/// left of the others is PyTorch's. wrong_input says which group cannot
/// be, and why, in words that whoever proposed it can act on.
Result<Plan> regroup(const Plan& plan, const CallGroups& groups);

}  // namespace weft
