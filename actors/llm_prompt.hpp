// The prompts of LLM seeds. Pieces go by how long they stay the same: rules and
// target, device, the piece of the model, then what has been tried. Templates
// are config/prompts/*.md, or what the user has put in their place.
#pragma once

#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// One time that a seed was tried, in a line, for the model's memory: what was
/// asked for, and what it gave. `parent`: what it was to better; nullptr: none.
std::string tried_line(const SeedResult& result,
                       const SeedResult* parent = nullptr);

struct SeedPrompt {
  std::vector<LlmPart> parts;
  std::string method;  ///< that it asks to try; empty: none
};

/// What asks for first kernels (round 0), or for a better one.
Result<SeedPrompt> seed_prompt(const RefineRequest& request, Blobs& blobs);

/// The first thing that went wrong, in words: the compiler's first error, or
/// the verdict's reason and the first elements that are wrong.
std::string evidence_of(const SeedResult& result, Blobs& blobs);

}  // namespace weft
