// A plan at other sizes of the model.
#include "compiler/graph/subgraph.hpp"

namespace weft {

Result<Plan> plan_at(const Plan& plan, const Sizes& sizes) {
  Plan result = plan;
  std::vector<Graph*> graphs{&result.model};
  for (Subgraph& subgraph : result.subgraphs) graphs.push_back(&subgraph.graph);
  for (Graph* graph : graphs) {
    auto at = graph_at(*graph, sizes);
    if (!at) return std::unexpected(at.error());
    *graph = std::move(*at);
  }
  return result;
}

}  // namespace weft
