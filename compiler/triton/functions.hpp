// The functions of scalar expressions, in Triton's language.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/loops/scalar.hpp"

namespace weft {

/// The text of a call with those arguments; nothing where Triton has no such
/// function, or not in that precision. Helpers that it uses are added.
std::optional<std::string> triton_call(
    const std::string& function, DType dtype,
    const std::vector<std::string>& arguments, std::set<std::string>& helpers);

/// The helpers' text with all that they use, in an order that Python can read.
std::string triton_helpers(const std::set<std::string>& helpers);

}  // namespace weft
