// Patterns: how language models' kernels won, kept in the kernel library for
// the prompts of similar subgraphs.
//
// * A search may end with a model's kernel that is a step faster than the best
//   kernel of all other sources. Then the agent sends a WinningPattern with the
//   kernel to the library. The pattern has the one change among the kernel's
//   ancestors that gained most, as the difference to the correct kernel before
//   it. A kernel without a correct parent is stored whole.
// * Before a model is asked, seeds/library looks up patterns together with the
//   kernel. Subgraphs are compared by features: operators, and the kinds of
//   technique that the prompt knows (reduction, scan, …). The library prefers
//   the same device.
// * The prompt shows them in one section of limited size. Requests, replies and
//   texts are in the journal, so replays and forks see what the run saw.
//
// A library may hold anything that a model, or somebody else, wrote. Texts are
// cut and escaped here, and the prompt says that they are data. A model that is
// misled by them still writes a kernel that is verified like any other.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

struct Graph;

/// The features by which subgraphs are compared, sorted: "scan", "op:cumsum".
std::vector<std::string> features_of(const Graph& graph);

/// Which patterns a search for this subgraph wants; none where no model is
/// asked, or the run was begun before there were any.
PatternQuery pattern_query(const OptimizeSubgraph& work, Blobs& blobs);

/// How `best` won; nullopt: it is no model's, or others were about as fast.
std::optional<WinningPattern> winning_pattern(
    const OptimizeSubgraph& work,
    const std::map<std::string, SeedResult>& results, const SeedResult& best,
    Blobs& blobs);

/// The section of a prompt; empty: there are no patterns.
std::string patterns_text(const RefineRequest& request, Blobs& blobs);

}  // namespace weft
