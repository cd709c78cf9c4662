// The part of a composed module that looks whether the model's parts are as
// they were captured, as Python text.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/part.hpp"

namespace weft {

/// `_weft_as_captured(model)`, to stand at module level. "" if nothing is known
/// of the parts.
std::string parts_source(const std::vector<Part>& parts);

/// Whether forward() went by .train() and .eval(), as far as is known: else
/// its kernels are for both.
bool reads_mode(const std::vector<Part>& parts);

}  // namespace weft
