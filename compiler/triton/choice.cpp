#include "compiler/triton/choice.hpp"

#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

// What stands alone is timed beside the framework's operator in any case;
// transposed convolutions of the library's gain by another layout.
bool competes_with_library(const Graph& graph, const Node& call,
                           const CutOptions& cut) {
  const auto side = cut.sides.find(call.name);
  if (side != cut.sides.end()) return side->second;
  if (!is_product(call.target)) return true;
  const auto convolution = convolution_of(graph, call);
  if (!convolution && operator_name(call.target) == "convolution") return false;
  const bool is_transposed = convolution && convolution->transposed;
  if (is_alone(graph) && !is_transposed) return true;
  switch (whose(graph, call, cut)) {
    case Whose::ours:
      return true;
    case Whose::library:
      return false;
    case Whose::contested:
      break;
  }
  if (cut.contested == CutOptions::Contested::usual) return !convolution;
  return cut.contested == CutOptions::Contested::ours;
}

}  // namespace weft
