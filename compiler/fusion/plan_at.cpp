// A plan at other sizes of the model.
#include "compiler/graph/subgraph.hpp"

namespace weft {

Result<Plan> plan_at(const Plan& plan, const Sizes& sizes) {
  Plan made = plan;
  std::vector<Graph*> graphs{&made.model};
  for (Subgraph& subgraph : made.subgraphs) graphs.push_back(&subgraph.graph);
  for (Graph* graph : graphs) {
    auto at = graph_at(*graph, sizes);
    if (!at) return std::unexpected(at.error());
    *graph = std::move(*at);
  }
  return made;
}

}  // namespace weft
