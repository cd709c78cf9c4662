#include <algorithm>
#include <set>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {

Graph eliminate_dead_code(Graph graph) {
  std::set<std::string> needed(graph.outputs.begin(), graph.outputs.end());
  for (const Mutation& mutation : graph.mutations) needed.insert(mutation.node);

  std::vector<Node> live;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->kind == NodeKind::call && !is_impure(node->target) &&
        !needed.contains(node->name)) {
      continue;
    }
    for_each_ref(*node, [&](const std::string& name) { needed.insert(name); });
    live.push_back(std::move(*node));
  }
  std::ranges::reverse(live);
  graph.nodes = std::move(live);
  return graph;
}

}  // namespace weft
