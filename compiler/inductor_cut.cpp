#include "compiler/inductor_cut.hpp"

#include <algorithm>
#include <utility>

#include "compiler/targets.hpp"

namespace weft {
namespace {

/// Whether two cuts ask for the same kernels in the same order.
bool are_same_pieces(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.placements, b.placements, {},
                            &Placement::subgraph, &Placement::subgraph);
}

}  // namespace

void add_inductor_cut(const Graph& model, const Target& target, CutOptions cut,
                      Plan& plan) {
  if (cut.no_extern) return;
  cut.others = CutOptions::Others::fused;
  cut.relays = false;
  Plan whole = partition(model, target, cut);
  const auto is_known = [&](const Plan& other) {
    return are_same_pieces(whole, other);
  };
  if (whole.placements.empty() || is_known(plan) ||
      std::ranges::any_of(plan.others, is_known)) {
    return;
  }
  whole.label = kInductorsFusion;
  if (plan.label.empty()) plan.label = kOurFusion;
  plan.others.push_back(std::move(whole));
}

}  // namespace weft
