// partition_for_sizes(): the model is cut at each size that it was captured at,
// and the cuts are held against each other piece by piece.
#include <algorithm>

#include "compiler/fusion/signature.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

using Plans = std::map<std::int64_t, Plan>;

std::unexpected<Error> cut_otherwise(const std::string& what) {
  return fail(ErrorCode::wrong_input,
              "the model is cut otherwise at another size: " + what);
}

/// Where in its plan the subgraph of that placement is.
std::size_t piece_of(const Plan& plan, std::size_t placement) {
  const auto found = std::ranges::find(
      plan.subgraphs, plan.placements[placement].subgraph, &Subgraph::id);
  return static_cast<std::size_t>(found - plan.subgraphs.begin());
}

Result<void> are_cut_alike(const Plan& one, const Plan& other) {
  if (one.placements.size() != other.placements.size() ||
      one.subgraphs.size() != other.subgraphs.size()) {
    return cut_otherwise("into another number of pieces");
  }
  for (std::size_t i = 0; i < one.placements.size(); ++i) {
    const Placement& a = one.placements[i];
    const Placement& b = other.placements[i];
    if (a.nodes != b.nodes || a.inputs != b.inputs || a.outputs != b.outputs ||
        piece_of(one, i) != piece_of(other, i)) {
      return cut_otherwise("at " + a.nodes.front());
    }
  }
  return {};
}

/// What grows in the graph that `of` takes of each plan.
template <typename Of>
Result<Growth> growth(const Plans& plans, std::int64_t size, const Of& of) {
  std::map<std::int64_t, Graph> graphs;
  for (const auto& [at, plan] : plans) graphs.emplace(at, of(plan));
  return growth_of(graphs, size);
}

/// Other kernels than those of the same calls at one size alone.
void name_anew(Plan& plan) {
  std::map<std::string, std::string> taken;
  for (Subgraph& subgraph : plan.subgraphs) {
    const Growth& growth = subgraph.graph.growth;
    if (growth.size == 0) {
      taken[subgraph.id] = subgraph.signature;
      continue;
    }
    const std::string before = subgraph.id;
    subgraph.signature += "for any " + std::to_string(growth.size) + ":";
    for (const auto& [pointer, per] : growth.per) {
      subgraph.signature += " " + pointer + " by " + std::to_string(per);
    }
    subgraph.signature += "\n";
    subgraph.id = fresh_id(subgraph.signature, taken);
    taken[subgraph.id] = subgraph.signature;
    for (Placement& placement : plan.placements) {
      if (placement.subgraph == before) placement.subgraph = subgraph.id;
    }
  }
}

}  // namespace

Result<Plan> partition_for_sizes(const std::map<std::int64_t, Graph>& models,
                                 std::int64_t size, const Target& target,
                                 const CutOptions& cut) {
  Plans plans;
  for (const auto& [at, model] : models) {
    plans.emplace(at, partition(model, target, cut));
  }
  Plan plan = plans.at(size);
  for (const auto& [at, other] : plans) {
    if (auto alike = are_cut_alike(plan, other); !alike) {
      return std::unexpected(alike.error());
    }
  }
  const auto whole =
      growth(plans, size, [](const Plan& one) { return one.model; });
  if (!whole) return std::unexpected(whole.error());
  plan.model.growth = *whole;
  for (std::size_t i = 0; i < plan.subgraphs.size(); ++i) {
    const auto piece = growth(
        plans, size, [&](const Plan& one) { return one.subgraphs[i].graph; });
    if (!piece) return std::unexpected(piece.error());
    if (piece->grows()) plan.subgraphs[i].graph.growth = *piece;
  }
  name_anew(plan);
  return plan;
}

}  // namespace weft
