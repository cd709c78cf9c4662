// How a language model is asked to cut a model into pieces, by the user's
// choice, and how its answer is read. What it proposes is held against
// compiler/fusion/regroup.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/role.hpp"
#include "compiler/fusion/regroup.hpp"

namespace weft {

/// `fault`: why its last proposal was refused; empty: there was none.
/// wrong_input: the model has more calls than anybody would read.
Result<std::vector<LlmPart>> grouping_prompt(const Plan& plan,
                                             const LlmOptions& options,
                                             const std::string& fault,
                                             Blobs& blobs);

/// A refused answer, for the next prompt: the JSON object in it, cut to what is
/// worth reading.
std::string refused_proposal(std::string_view answer);

/// wrong_input says what the answer lacks.
Result<CallGroups> groups_in(std::string_view answer);

}  // namespace weft
