// The prompts of LLM seeds. Pieces go by how long they stay the same: rules and
// target, device, the piece of the model, then what has been tried. Templates
// are config/prompts/*.md, or what the user has put in their place.
#pragma once

#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// One time that a seed was tried, in a line, for the model's memory.
std::string tried_line(const SeedResult& result);

/// What asks for first kernels (round 0), or for a better one.
Result<std::vector<LlmPart>> seed_prompt(const RefineRequest& request,
                                         Blobs& blobs);

/// The first thing that went wrong, in words: the compiler's first error, or
/// the verdict's reason.
std::string evidence_of(const SeedResult& result, Blobs& blobs);

}  // namespace weft
