// What the pages ask for, as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "runtime/ui/shelf.hpp"

namespace weft {

/// The list of runs: {"runs": [...], "more": how many are not looked into}.
nlohmann::json runs_answer(Shelf& shelf);

/// What is known of a run in a few words.
nlohmann::json run_answer(const Shelf::Run& run);

/// What stands once event `at` is delivered: the event, what led to it and what
/// came of it, the roles, the requests without a reply, and the broker's state.
Result<nlohmann::json> moment_answer(Shelf::Run& run, std::uint64_t at);

}  // namespace weft
