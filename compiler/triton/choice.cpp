#include "compiler/triton/choice.hpp"

#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

// What stands alone is timed beside PyTorch's operator in any case;
// transposed convolutions of the library's gain by another layout.
bool competes_with_library(const Graph& graph, const Node& call,
                           const CutOptions& cut) {
  const auto side = cut.sides.find(call.name);
  if (side != cut.sides.end()) return side->second;
  if (!is_product(call.target)) return true;
  const auto convolution = convolution_of(graph, call);
  if (!convolution && operator_name(call.target) == "convolution") return false;
  const bool is_transposed = convolution && convolution->transposed;
  if (is_single_call(graph) && !is_transposed) return true;
  switch (choose_contraction(graph, call, cut)) {
    case ContractionChoice::generated:
      return true;
    case ContractionChoice::vendor:
      return false;
    case ContractionChoice::undecided:
      break;
  }
  if (cut.undecided == CutOptions::Undecided::by_default) return !convolution;
  return cut.undecided == CutOptions::Undecided::generated;
}

}  // namespace weft
