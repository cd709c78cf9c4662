// What a run's report says of language models: calls, tokens, cost and waiting,
// why each subgraph's search ended, and which kernel came of which.
#pragma once

#include <string>

#include "actors/report.hpp"

namespace weft {

/// Whether some call was not made because it could have exceeded the budget.
bool ran_out_of_budget(const Report& report);

/// What is said at the end of a run beside its verdict: that the budget ended
/// first, or that a provider failed for good, and why. Empty: neither.
std::string llm_trouble(const Report& report);

/// Of all subgraphs together.
LlmSpent llm_spent(const Report& report);

/// A section of report.md; empty where no language model was named.
std::string llm_section(const Report& report);

/// Columns of results.csv: rounds, calls, those from the cache, tokens, USD,
/// milliseconds waited.
std::string csv_llm(int rounds, const LlmSpent& spent);

}  // namespace weft
