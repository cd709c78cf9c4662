// Which kernels a language model is asked to fuse into one, by the user's
// choice: those of neighbours, one of which uses what the other gives. A fused
// kernel that is kept is a winner like any, with neighbours of its own: so a
// chain grows step by step, and only as far as each step pays.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/fusion/regroup.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

using Verdicts = std::map<std::string, SubgraphDone>;  ///< by subgraph

/// By a fused piece's id: the ids of the two that it is made of.
using FusedParts = std::map<std::string, std::vector<std::string>>;

/// A cut in which neighbours are one piece.
struct Fusing {
  Plan plan;
  FusedParts parts;  ///< of its pieces that are none of the cut's before
};

/// Of the kernels before anything was fused, so many become one at most.
inline constexpr int kFusedKernelsMax = 4;
/// Of a run: each pair is a search of its own, which costs money.
inline constexpr std::size_t kFusedPairsMax = 32;

/// The name of a cut with a fused piece, if both cuts are timed.
inline constexpr const char* kFusedByModel = "neighbours fused";

/// Neighbours of `plan` that each have a right kernel, in one pair at most
/// each; no part: there are none. `earlier`: what some of them are made of
/// already. `wants`: whether that fused piece is to be made. `edition`:
/// LlmOptions'; in the first both must be winners.
Fusing fuse_neighbours(const Plan& plan, const Verdicts& done,
                       const FusedParts& earlier, int edition,
                       const std::function<bool(const std::string&)>& wants);

/// Whether the fused kernel takes less time than its parts one after the other:
/// by its speedup over eager against theirs, as times of different minutes say
/// little (`edition` 1: by the times). A part that lost is eager's.
bool is_worth_fusing(const SubgraphDone& fused,
                     const std::vector<std::string>& parts,
                     const Verdicts& done, int edition);

}  // namespace weft
