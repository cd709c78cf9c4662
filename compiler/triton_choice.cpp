#include "compiler/triton_choice.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/operator_facts.hpp"

namespace weft {
namespace {

bool is_alone(const Graph& graph) {
  const auto works = [](const Node& node) {
    return node.kind == NodeKind::call && node.target != "getitem" &&
           !is_view(node.target);
  };
  return std::ranges::count_if(graph.nodes, works) <= 1;
}

bool flag_of(const Node& call, std::size_t position) {
  if (position >= call.args.size()) return false;
  const auto* flag = std::get_if<bool>(&call.args[position].value);
  return flag != nullptr && *flag;
}

const TensorType* type_of(const Node& node) {
  return node.values.empty() || !node.values[0] ? nullptr : &*node.values[0];
}

const TensorType* type_of(const Graph& graph, const Arg& arg) {
  const auto* ref = std::get_if<NodeRef>(&arg.value);
  const Node* node = ref == nullptr ? nullptr : graph.find(ref->name);
  return node == nullptr ? nullptr : type_of(*node);
}

std::int64_t groups_of(const Node& call) {
  const auto* groups = std::get_if<std::int64_t>(&call.args[8].value);
  return groups == nullptr ? 1 : *groups;
}

/// Positions of the image that one of the result is made of.
std::int64_t window(const TensorType& weight) {
  return std::accumulate(weight.shape.begin() + 2, weight.shape.end(),
                         std::int64_t{1}, std::multiplies<>());
}

// What follows was measured on an H200, amid what a kernel fuses with, against
// the library's on images with their channels innermost (docs/performance.md).

// Depthwise ones at 2 to 22 times torch.compile's speed, and those of few
// channels to many at 1.1 to 1.5 times the library's; others at 0.3 to 0.9.
bool wins(const Node& call, const TensorType& weight,
          const TensorType& result) {
  if (weight.shape[1] == 1) return true;
  return groups_of(call) == 1 && weight.shape[1] <= 8 &&
         result.shape[1] >= 64 && window(weight) <= 27;
}

// Those of few channels at 2.1 to 2.6 times the library's speed, and 5 × 5 × 5
// in steps of two, for which it has no fast kernel, at 2.7; others at 0.3 to
// 0.9.
bool wins_transposed(const Node& call, const TensorType& weight) {
  const auto* steps = std::get_if<Arg::List>(&call.args[3].value);
  const bool strides = steps != nullptr && !steps->empty() &&
                       std::ranges::none_of(*steps, [](const Arg& step) {
                         return step == Arg{std::int64_t{1}};
                       });
  return groups_of(call) == 1 &&
         (weight.shape[0] <= 4 || (strides && window(weight) >= 125));
}

}  // namespace

bool competes_with_library(const Graph& graph, const Node& call) {
  if (operator_name(call.target) != "convolution") return true;
  if (is_alone(graph) || call.args.size() < 9) return true;
  const TensorType* weight = type_of(graph, call.args[1]);
  const TensorType* result = type_of(call);
  if (weight == nullptr || result == nullptr) return false;
  return flag_of(call, 6) ? wins_transposed(call, *weight)
                          : wins(call, *weight, *result);
}

}  // namespace weft
