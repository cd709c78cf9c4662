// What a run found, for programs (result.json): everything that report.md
// says, in full precision, and what floors are worked out from.
#pragma once

#include <string>

#include "actors/report.hpp"

namespace weft {

/// One object; docs/how-to/kernelbench.md has its fields. A value that was not
/// measured is null.
std::string result_json(const Report& report, const Plan& plan);

}  // namespace weft
