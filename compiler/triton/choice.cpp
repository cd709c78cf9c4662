#include "compiler/triton/choice.hpp"

#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

// What stands alone is timed beside PyTorch's operator in any case;
// transposed convolutions of the library's gain by another layout.
Decision competes_with_library(const Graph& graph, const Node& call,
                               const CutOptions& cut) {
  const auto side = cut.sides.find(call.name);
  if (side != cut.sides.end()) {
    return {side->second, "it is partitioned alike at every size"};
  }
  if (!is_product(call.target)) return true;
  const auto convolution = convolution_of(graph, call);
  if (!convolution && operator_name(call.target) == "convolution") {
    return {false, "its shapes are none of a convolution that has code"};
  }
  const bool is_transposed = convolution && convolution->transposed;
  if (is_single_call(graph) && !is_transposed) {
    return {true, "it is the graph's only call, so timing decides"};
  }
  const ContractionDecision decision = choose_contraction(graph, call, cut);
  switch (decision.choice) {
    case ContractionChoice::generated:
      return {true, decision.reason};
    case ContractionChoice::vendor:
      return {false, decision.reason};
    case ContractionChoice::undecided:
      break;
  }
  if (cut.undecided == CutOptions::Undecided::by_default) {
    return {!convolution,
            decision.reason +
                "; by default the vendor library computes convolutions, and "
                "generated kernels compute other products"};
  }
  return {cut.undecided == CutOptions::Undecided::generated,
          decision.reason +
              "; both partitions are built and timed, and this "
              "is one of them"};
}

}  // namespace weft
