// The prompts of LLM seeds. Pieces go by how long they stay the same: rules and
// target, device, the subgraph, then what was measured and what is asked. The
// measured piece is no part of what an answer is kept by. Templates are
// config/prompts/*.md, or what the user has put in their place.
#pragma once

#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

struct SeedPrompt {
  std::vector<LlmPart> parts;
  std::string method;  ///< that it offers; empty: none
};

/// What asks for first kernels (round 0), or for a better one.
Result<SeedPrompt> seed_prompt(const RefineRequest& request, Blobs& blobs);

/// The first thing that went wrong, in words: the compiler's first error, or
/// the verdict's reason and the first elements that are wrong.
std::string evidence_of(const SeedResult& result, Blobs& blobs);

}  // namespace weft
