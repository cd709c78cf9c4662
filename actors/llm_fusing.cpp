#include "actors/llm_fusing.hpp"

#include <algorithm>
#include <set>

#include "actors/outcome.hpp"

namespace weft {
namespace {

/// Less is noise (docs/experiments, lab notes).
constexpr double kGainMin = 1.03;

bool won(const Verdicts& done, const std::string& subgraph) {
  const auto found = done.find(subgraph);
  return found != done.end() && has_won(found->second);
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
                       const FusedParts& earlier,
                       const std::function<bool(const std::string&)>& wants) {
  Fusing made{plan, {}};
  CallGroups groups;
  std::set<std::size_t> used;
  const auto& places = plan.placements;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = i + 1; j < places.size(); ++j) {
      if (groups.size() >= kFusedPairsMax || used.contains(i)) break;
      if (used.contains(j) || !feeds(places[i], places[j])) continue;
      if (!won(done, places[i].subgraph) || !won(done, places[j].subgraph)) {
        continue;
      }
      if (kernels_in(places[i].subgraph, earlier) +
              kernels_in(places[j].subgraph, earlier) >
          kFusedKernelsMax) {
        continue;
      }
      groups.push_back(both(places[i], places[j]));
      auto fused = regroup(plan, groups);
      const std::string id =
          fused ? piece_of(*fused, places[i].nodes.front()) : "";
      if (id.empty() || !wants(id)) {
        groups.pop_back();
        continue;
      }
      made.plan = std::move(*fused);
      made.parts[id] = {places[i].subgraph, places[j].subgraph};
      used.insert({i, j});
    }
  }
  return made;
}

bool is_worth_fusing(const SubgraphDone& fused,
                     const std::vector<std::string>& parts,
                     const Verdicts& done) {
  if (fused.outcome == "proven") return true;
  if (fused.outcome != "won") return false;
  double apart_us = 0;
  for (const std::string& part : parts) {
    apart_us += done.at(part).best.timing.candidate.median_us;
  }
  return kGainMin * fused.best.timing.candidate.median_us < apart_us;
}

}  // namespace weft
