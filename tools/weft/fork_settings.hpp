// What `weft fork --set` may change of a run.
#pragma once

#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/run.hpp"

namespace weft {

/// `recorded` with settings of the form "variants=8" or
/// "no-compile-baseline=true", by the names and within the limits of 'weft
/// run''s flags. wrong_input: there is no such setting, its value does not do,
/// or it cannot change under way.
Result<RunOptions> changed_options(const RunOptions& recorded,
                                   const std::vector<std::string>& settings);

}  // namespace weft
