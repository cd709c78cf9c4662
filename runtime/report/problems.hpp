// What went wrong in a run, and what is worth knowing, the worst first.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weft {

/// [{level: "error" | "warning" | "note", what, reason, subgraph?}] of what
/// run_view() gathered.
nlohmann::json problems_of(const nlohmann::json& view);

}  // namespace weft
