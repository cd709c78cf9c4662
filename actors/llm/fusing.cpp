#include "actors/llm/fusing.hpp"

#include <algorithm>
#include <set>

#include "actors/outcome.hpp"

namespace weft {
namespace {

/// Less is noise (two cores and an H200, up to 2026-11-25).
constexpr double kGainMin = 1.03;

/// Whether its kernel may be part of a fused one. A kernel that is right and no
/// faster than eager alone may save the memory traffic to its neighbour.
bool may_fuse(const Verdicts& done, const std::string& subgraph, int edition) {
  const auto found = done.find(subgraph);
  if (found == done.end()) return false;
  return has_won(found->second) ||
         (edition >= 2 && found->second.outcome == "not_faster");
}

/// How many times faster than eager the parts are, one after the other.
double speedup_apart(const std::vector<std::string>& parts,
                     const Verdicts& done) {
  double eager_us = 0;
  double us = 0;
  for (const std::string& part : parts) {
    const Timing& timing = done.at(part).best.timing;
    const double ratio = has_won(done.at(part)) ? timing.over_eager.ratio : 1.0;
    eager_us += timing.eager.median_us;
    us += timing.eager.median_us / std::max(ratio, 1e-9);
  }
  return us > 0 ? eager_us / us : 0;
}

bool feeds(const Placement& first, const Placement& second) {
  return std::ranges::any_of(first.outputs, [&](const std::string& name) {
    return std::ranges::find(second.inputs, name) != second.inputs.end();
  });
}

std::vector<std::string> both(const Placement& a, const Placement& b) {
  std::vector<std::string> nodes = a.nodes;
  nodes.insert(nodes.end(), b.nodes.begin(), b.nodes.end());
  return nodes;
}

/// Kernels that a piece was before anything was fused.
int kernels_in(const std::string& id, const FusedParts& earlier) {
  const auto fused = earlier.find(id);
  if (fused == earlier.end()) return 1;
  int count = 0;
  for (const std::string& part : fused->second) {
    count += kernels_in(part, earlier);
  }
  return count;
}

/// The id of the piece that holds that node.
std::string piece_of(const Plan& plan, const std::string& node) {
  for (const Placement& placement : plan.placements) {
    if (std::ranges::find(placement.nodes, node) != placement.nodes.end()) {
      return placement.subgraph;
    }
  }
  return "";
}

}  // namespace

Fusing fuse_neighbours(const Plan& plan, const Verdicts& done,
                       const FusedParts& earlier, int edition,
                       const std::function<bool(const std::string&)>& wants) {
  Fusing fusing{plan, {}};
  CallGroups groups;
  std::set<std::size_t> used;
  const auto& placements = plan.placements;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    for (std::size_t j = i + 1; j < placements.size(); ++j) {
      if (groups.size() >= kFusedPairsMax || used.contains(i)) break;
      if (used.contains(j) || !feeds(placements[i], placements[j])) continue;
      if (!may_fuse(done, placements[i].subgraph, edition) ||
          !may_fuse(done, placements[j].subgraph, edition)) {
        continue;
      }
      if (kernels_in(placements[i].subgraph, earlier) +
              kernels_in(placements[j].subgraph, earlier) >
          kFusedKernelsMax) {
        continue;
      }
      groups.push_back(both(placements[i], placements[j]));
      auto fused = regroup(plan, groups);
      const std::string id =
          fused ? piece_of(*fused, placements[i].nodes.front()) : "";
      if (id.empty() || !wants(id)) {
        groups.pop_back();
        continue;
      }
      fusing.plan = std::move(*fused);
      fusing.parts[id] = {placements[i].subgraph, placements[j].subgraph};
      used.insert({i, j});
    }
  }
  return fusing;
}

bool is_worth_fusing(const SubgraphDone& fused,
                     const std::vector<std::string>& parts,
                     const Verdicts& done, int edition) {
  if (fused.outcome == "proven") return true;
  if (fused.outcome != "won") return false;
  const Timing& timing = fused.best.timing;
  const bool by_events =
      timing.floor_us > 0 &&
      std::ranges::all_of(parts, [&](const std::string& part) {
        return has_won(done.at(part));
      });
  if (edition >= 2 && !by_events) {
    return timing.over_eager.ratio > kGainMin * speedup_apart(parts, done);
  }
  double apart_us = 0;
  for (const std::string& part : parts) {
    apart_us += done.at(part).best.timing.candidate.median_us;
  }
  return kGainMin * fused.best.timing.candidate.median_us < apart_us;
}

}  // namespace weft
