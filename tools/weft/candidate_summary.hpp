// What a run found of one candidate: a line, all of it, or an object for a
// tool.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "messages/vocabulary.hpp"

namespace weft {

/// Its verdict, and its time over eager's.
std::string candidate_line(const SeedResult& result);

/// Where it came from, its verdict with the first elements that are wrong, its
/// times, and what its kernels were built into: a line for each thing.
std::string candidate_text(const SeedResult& result);

nlohmann::json candidate_json(const SeedResult& result);

}  // namespace weft
