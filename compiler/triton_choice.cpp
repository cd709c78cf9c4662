#include "compiler/triton_choice.hpp"

#include <algorithm>

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

const TensorType* type_of(const Graph& graph, const Arg& arg) {
  const auto* ref = std::get_if<NodeRef>(&arg.value);
  const Node* node = ref == nullptr ? nullptr : graph.find(ref->name);
  if (node == nullptr || node->values.empty() || !node->values[0]) {
    return nullptr;
  }
  return &*node->values[0];
}

}  // namespace

bool competes_with_library(const Graph& graph, const Node& call) {
  if (operator_name(call.target) != "convolution") return true;
  if (is_alone(graph) || call.args.size() < 9) return true;
  const TensorType* weight = type_of(graph, call.args[1]);
  if (weight == nullptr) return false;
  // Measured on an H200: depthwise ones at 2 to 22 times torch.compile's
  // speed. Others, amid what a kernel could fuse with them, at 0.4 to 0.9 (the
  // transposed ones of three dimensions, which alone are at 1.1 to 1.2).
  const bool transposed = flag_of(call, 6);
  return !transposed && weight->shape[1] == 1;
}

}  // namespace weft
