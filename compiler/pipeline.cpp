// partition() for a target: passes first, then the cut along what it lowers.
#include <algorithm>

#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

Graph with_precision(Graph graph, const std::string& precision) {
  for (Node& node : graph.nodes) {
    if (precision == "strict") node.tf32 = false;
    if (precision == "tf32") {
      node.tf32 = node.kind == NodeKind::call && is_product(node.target) &&
                  !node.values.empty() && node.values.front() &&
                  node.values.front()->dtype == DType::f32;
    }
  }
  return graph;
}

/// Whether a call that the compiler has no code for computes tensors from
/// tensors, so that a kernel from elsewhere could.
bool others_can(const Node& call) {
  const std::string& target = call.target;
  const bool gives_tensors =
      !call.values.empty() &&
      std::ranges::all_of(call.values,
                          [](const auto& value) { return value.has_value(); });
  return call.kind == NodeKind::call && target.starts_with("aten.") &&
         gives_tensors && !is_impure(target) && !is_view(target) &&
         !is_split(target) && !is_copy(target) && !is_fill(target);
}

/// The cut along what the target lowers and what others may write kernels for.
Plan cut_along(const Graph& graph, const Lowerable& lowerable,
               CutOptions::Others others, std::set<std::string> apart) {
  if (others == CutOptions::Others::none) {
    return partition(graph, lowerable, apart);
  }
  std::set<std::string> theirs;
  for (const Node& node : graph.nodes) {
    if (node.target == "getitem") {
      // What is read of several results stays with the call that gives them.
      for_each_ref(node, [&](const std::string& tuple) {
        if (theirs.contains(tuple) && apart.contains(tuple)) {
          apart.insert(node.name);
        }
      });
    }
    if (!others_can(node) || lowerable(graph, node)) continue;
    theirs.insert(node.name);
    if (others == CutOptions::Others::apart) apart.insert(node.name);
  }
  return partition(
      graph,
      [&](const Graph& whole, const Node& call) {
        return theirs.contains(call.name) || lowerable(whole, call);
      },
      apart);
}

}  // namespace

Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut) {
  const auto lowerable = [&](const Graph& graph, const Node& call) {
    return target.can_lower(graph, call, cut);
  };
  Graph graph = einsum_by_pairs(join_written_pieces(
      eliminate_common_subexpressions(eliminate_dead_code(model))));
  if (!target.on_gpu) {
    return cut_along(with_precision(std::move(graph), "strict"), lowerable,
                     cut.others, {});
  }
  graph = with_precision(std::move(graph), cut.precision);
  if (!cut.no_extern) graph = convolve_forward(graph);
  graph = separate_bias(std::move(graph), lowerable);
  const Relaid relaid = convolve_channels_last(graph, lowerable);
  return cut_along(eliminate_dead_code(relaid.graph), lowerable, cut.others,
                   relaid.apart);
}

}  // namespace weft
