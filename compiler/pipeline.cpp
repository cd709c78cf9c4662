// partition() for a target: passes first, then the cut along what it lowers.
#include "compiler/fusion/partition.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/targets.hpp"

namespace weft {

Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut) {
  const auto lowerable = [&](const Graph& graph, const Node& call) {
    return target.can_lower(graph, call, cut);
  };
  Graph graph = einsum_by_pairs(join_written_pieces(
      eliminate_common_subexpressions(eliminate_dead_code(model))));
  if (!target.on_gpu) return partition(graph, lowerable);
  if (cut.tf32 && !cut.no_extern) graph = convolve_forward(graph);
  graph = separate_bias(std::move(graph), lowerable);
  if (!cut.tf32) return partition(graph, lowerable);
  const Relaid relaid = convolve_channels_last(graph, lowerable);
  return partition(eliminate_dead_code(relaid.graph), lowerable, relaid.apart);
}

}  // namespace weft
