// Made-up answers of the ports, from a seeded generator: a model to capture,
// builds that work or don't, verdicts and times. For the simulator.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "actors/role.hpp"

namespace weft {

using Random = std::mt19937_64;

/// True `out_of_1000` times in a thousand.
bool happens(Random& random, int out_of_1000);

/// From 0 to `below` - 1.
std::int64_t pick(Random& random, std::int64_t below);

/// A small model as docs/reference/graph.md's JSON: a few rows of operators
/// with matrix products between them, some of them alike.
std::string simulated_graph(Random& random);

/// Providers with small limits, and budgets that some runs exceed.
LlmOptions simulated_models(Random& random);

/// A refusal, an overload, a timeout, a cut stream, or an error for good.
LlmReply simulated_llm_failure(const LlmRequest& request, Random& random);

/// What a port that works answers to `request`.
Message simulated_answer(const Message& request, Blobs& blobs, Random& random);

/// What a port that fails answers: the reply with its failure set.
Message simulated_failure(const Message& request, Random& random);

}  // namespace weft
