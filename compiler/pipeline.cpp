// partition() for a target: passes first, then the cut along what it lowers.
#include "compiler/fusion/partition.hpp"
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

}  // namespace

Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut) {
  const auto lowerable = [&](const Graph& graph, const Node& call) {
    return target.can_lower(graph, call, cut);
  };
  Graph graph = einsum_by_pairs(join_written_pieces(
      eliminate_common_subexpressions(eliminate_dead_code(model))));
  if (!target.on_gpu) {
    return partition(with_precision(std::move(graph), "strict"), lowerable);
  }
  graph = with_precision(std::move(graph), cut.precision);
  if (!cut.no_extern) graph = convolve_forward(graph);
  graph = separate_bias(std::move(graph), lowerable);
  const Relaid relaid = convolve_channels_last(graph, lowerable);
  return partition(eliminate_dead_code(relaid.graph), lowerable, relaid.apart);
}

}  // namespace weft
