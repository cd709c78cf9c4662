// Which kernels that won a language model is asked to fuse into one, by the
// user's choice: those of neighbours, one of which uses what the other gives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/fusion/regroup.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

using Verdicts = std::map<std::string, SubgraphDone>;  ///< by subgraph

/// A cut in which neighbours are one piece.
struct Fusing {
  Plan plan;
  /// By the fused piece's id: the ids of what it is made of.
  std::map<std::string, std::vector<std::string>> parts;
};

/// Neighbouring winners of `plan`, each in one pair at most; no part: there are
/// none. `only`: those alone whose fused piece is one of these; null: all.
Fusing fuse_neighbours(const Plan& plan, const Verdicts& done,
                       const std::vector<std::string>* only);

/// Whether the fused kernel takes less time than its parts one after the other.
bool is_worth_fusing(const SubgraphDone& fused,
                     const std::vector<std::string>& parts,
                     const Verdicts& done);

}  // namespace weft
