#include "compiler/triton/choice.hpp"

#include <algorithm>
#include <numeric>

#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {
namespace {

bool is_alone(const Graph& graph) {
  const auto works = [](const Node& node) {
    return node.kind == NodeKind::call && node.target != "getitem" &&
           !is_view(node.target);
  };
  return std::ranges::count_if(graph.nodes, works) <= 1;
}

// What follows was measured on an H200, amid what a kernel fuses with, against
// the library's on images with their channels innermost (docs/performance.md).

// Depthwise ones at 2 to 22 times torch.compile's speed. Of others those whose
// sums are short: to read the image in another layout and to write the result
// in two passes takes the library longer than all of it takes us.
bool wins(const Convolution& one) {
  const std::int64_t inputs = one.weight->shape[1];
  if (inputs == 1) return true;
  const std::int64_t terms = inputs * one.window;
  return one.groups == 1 && one.result->shape[1] >= 16 &&
         ((inputs <= 8 && terms <= 384) || (inputs <= 16 && terms <= 144));
}

// Not those of volumes that step by one, which are turned round before. Those
// of few channels at 2.1 to 5.5 times torch.compile's speed, as are 5 × 5 × 5
// in steps of two, for which the library has no fast kernel; of more channels
// where steps of two leave few taps for each result.
bool wins_transposed(const Convolution& one) {
  if (one.groups != 1) return false;
  const std::int64_t inputs = one.weight->shape[0];
  const bool strides = std::ranges::count(one.steps, 1) == 0;
  return inputs <= 4 ||
         (strides &&
          (one.window >= 125 || (inputs <= 16 && one.window <= 27) ||
           (inputs <= 64 && one.window <= 9 && one.result->shape[1] <= 64)));
}

/// Whether most outputs meet no input at all, for dilations that are in step
/// with the strides.
bool is_sparse(const Convolution& one) {
  std::int64_t of = 1;
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    of *= std::gcd(one.steps[i], one.dilation[i]);
  }
  return of >= 4;
}

/// Of transposed ones that stand alone, the library is the faster by far where
/// it works with channels innermost and results get many products each: in
/// volumes of few channels that step by two, too few for the copies.
bool is_fast(const Convolution& one) {
  const auto& weight = one.weight->shape;
  const bool copies = weight.size() == 5 && std::ranges::min(one.steps) == 2 &&
                      weight[0] <= 32 && weight[1] <= 32;
  return one.groups == 1 && weight.size() > 3 &&
         std::ranges::max(one.steps) <= 2 && !copies && !is_sparse(one);
}

}  // namespace

bool competes_with_library(const Graph& graph, const Node& call) {
  if (operator_name(call.target) != "convolution") return true;
  const auto one = convolution_of(graph, call);
  if (!one) return false;
  if (!one->transposed) return is_alone(graph) || wins(*one);
  return wins_transposed(*one) ||
         (is_alone(graph) && !(call.tf32 && is_fast(*one)));
}

}  // namespace weft
