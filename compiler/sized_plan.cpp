// partition_for_sizes(): the model is cut at each size that it was captured at,
// and the cuts are held against each other piece by piece.
#include <algorithm>

#include "compiler/fusion/lowerable.hpp"
#include "compiler/fusion/signature.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/lowering/any_size.hpp"
#include "compiler/partition_labels.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

using Plans = std::map<Sizes, Plan>;

std::unexpected<Error> cut_otherwise(const std::string& what) {
  return fail(ErrorCode::wrong_input,
              "the model is partitioned differently at another size: " + what);
}

/// Where in its plan the subgraph of that placement is.
std::size_t piece_of(const Plan& plan, std::size_t placement) {
  const auto found = std::ranges::find(
      plan.subgraphs, plan.placements[placement].subgraph, &Subgraph::id);
  return static_cast<std::size_t>(found - plan.subgraphs.begin());
}

Result<void> are_cut_alike(const Plan& plan, const Plan& other) {
  if (plan.placements.size() != other.placements.size() ||
      plan.subgraphs.size() != other.subgraphs.size()) {
    return cut_otherwise("into another number of pieces");
  }
  for (std::size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& a = plan.placements[i];
    const Placement& b = other.placements[i];
    if (a.nodes != b.nodes || a.inputs != b.inputs || a.outputs != b.outputs ||
        piece_of(plan, i) != piece_of(other, i)) {
      return cut_otherwise("at " + a.nodes.front());
    }
  }
  return {};
}

/// The symbols of the graph that `of` takes from each plan.
template <typename Of>
Result<SymbolicShapes> fit_shapes(const Plans& plans, const Sizes& sizes,
                                  const Of& of) {
  std::map<Sizes, Graph> graphs;
  for (const auto& [at, plan] : plans) graphs.emplace(at, of(plan));
  return fit_symbolic_shapes(graphs, sizes);
}

Plans plans_at(const std::map<Sizes, Graph>& models, const Target& target,
               const CutOptions& cut) {
  Plans plans;
  for (const auto& [sizes, model] : models) {
    plans.emplace(sizes, partition(model, target, cut));
  }
  return plans;
}

/// Whether a call of that name, one of the models', has code for any size, as
/// far as the call alone tells.
bool has_any_size(const Plans& plans, const std::string& name) {
  std::vector<std::pair<Sizes, std::int64_t>> elements;
  std::vector<Graph> single_calls;
  for (const auto& [sizes, plan] : plans) {
    const Node* call = plan.model.find(name);
    if (call == nullptr) return false;
    auto graph = single_call_graph(plan.model, *call);
    if (!graph) return false;
    for (const Node& node : graph->nodes) {
      const bool is_result = node.kind == NodeKind::call && !node.is_tuple;
      if (is_result) graph->outputs.push_back(node.name);
    }
    single_calls.push_back(std::move(*graph));
    if (call->values.empty() || !call->values[0]) continue;
    elements.emplace_back(sizes, element_count(*call->values[0]));
  }
  // A size's cube is no such number, nor the first one's square of two.
  return (elements.empty() || fit_polynomial(elements)) &&
         !positions_are_symbolic(single_calls.front(), single_calls.back());
}

/// Whose calls are at every size: PyTorch's where ours would not be for
/// any, and sums of products as what they take at that size tells.
std::map<std::string, bool> sides_of(const Plans& plans, const Sizes& sizes) {
  std::map<std::string, bool> sides;
  const Plan& plan = plans.at(sizes);
  std::set<std::string> ours;
  for (const Placement& placement : plan.placements) {
    ours.insert(placement.nodes.begin(), placement.nodes.end());
  }
  for (const Node& node : plan.model.nodes) {
    if (node.kind != NodeKind::call) continue;
    const bool is_ours = ours.contains(node.name);
    if (is_ours && !has_any_size(plans, node.name)) {
      sides[node.name] = false;
    } else if (is_product(node.target)) {
      sides[node.name] = is_ours;
    }
  }
  return sides;
}

/// Other kernels than those of the same calls at one size alone.
void name_anew(Plan& plan) {
  std::map<std::string, std::string> taken;
  for (Subgraph& subgraph : plan.subgraphs) {
    const SymbolicShapes& symbolic_shapes = subgraph.graph.symbolic_shapes;
    if (symbolic_shapes.sizes.empty()) {
      taken[subgraph.id] = subgraph.signature;
      continue;
    }
    const std::string before = subgraph.id;
    subgraph.signature +=
        "for any " + numbers_text(symbolic_shapes.sizes) + ":";
    for (const auto& [pointer, coefficients] : symbolic_shapes.coefficients) {
      subgraph.signature +=
          " " + pointer + " by " +
          numbers_text(list_of(coefficients, symbolic_shapes.sizes.size()));
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

Result<Plan> partition_for_sizes(const std::map<Sizes, Graph>& models,
                                 const Sizes& sizes, const Target& target,
                                 const CutOptions& cut) {
  Plans plans = plans_at(models, target, cut);
  CutOptions alike = cut;
  alike.sides = sides_of(plans, sizes);
  if (!alike.sides.empty()) plans = plans_at(models, target, alike);
  Plan plan = plans.at(sizes);
  for (const auto& [at, other] : plans) {
    if (auto alike = are_cut_alike(plan, other); !alike) {
      return std::unexpected(alike.error());
    }
  }
  const auto whole = fit_shapes(plans, sizes, [](const Plan& plan_at_size) {
    return plan_at_size.model;
  });
  if (!whole) return std::unexpected(whole.error());
  plan.model.symbolic_shapes = *whole;
  for (std::size_t i = 0; i < plan.subgraphs.size(); ++i) {
    const auto piece = fit_shapes(plans, sizes, [&](const Plan& plan_at_size) {
      return plan_at_size.subgraphs[i].graph;
    });
    if (!piece) return std::unexpected(piece.error());
    if (piece->is_symbolic()) plan.subgraphs[i].graph.symbolic_shapes = *piece;
  }
  name_anew(plan);
  return plan;
}

Result<Plan> partition_candidates_for_sizes(
    const std::map<Sizes, Graph>& models, const Sizes& sizes,
    const Target& target, CutOptions cut) {
  auto plan = partition_for_sizes(models, sizes, target, cut);
  if (!plan || !target.on_gpu) return plan;
  cut.undecided = CutOptions::Undecided::vendor;
  auto other = partition_for_sizes(models, sizes, target, cut);
  if (!other || other->placements.empty() ||
      plan_to_json(*other) == plan_to_json(*plan)) {
    return plan;
  }
  plan->label = kGeneratedContractions;
  other->label = kVendorContractions;
  plan->others.push_back(std::move(*other));
  return plan;
}

}  // namespace weft
