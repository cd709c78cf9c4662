// A plan at another size of the model.
#include "compiler/graph/subgraph.hpp"

namespace weft {

Plan plan_at(const Plan& plan, std::int64_t size) {
  Plan made = plan;
  const auto move = [&](Graph& graph) {
    if (graph.growth.size != 0) graph = graph_at(graph, size);
  };
  move(made.model);
  for (Subgraph& subgraph : made.subgraphs) move(subgraph.graph);
  return made;
}

}  // namespace weft
