// A plan at another size of the model.
#include "compiler/graph/subgraph.hpp"

namespace weft {

Result<Plan> plan_at(const Plan& plan, std::int64_t size) {
  Plan made = plan;
  std::vector<Graph*> graphs{&made.model};
  for (Subgraph& subgraph : made.subgraphs) graphs.push_back(&subgraph.graph);
  for (Graph* graph : graphs) {
    auto at = graph_at(*graph, size);
    if (!at) return std::unexpected(at.error());
    *graph = std::move(*at);
  }
  return made;
}

}  // namespace weft
