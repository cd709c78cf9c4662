#include "compiler/fusion/product_count.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "compiler/graph/einsum_equation.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/loops/scalar.hpp"

namespace weft {
namespace {

using Types = std::map<std::string, const TensorType*, std::less<>>;

/// The tensor that the call's argument names, or nullptr.
const TensorType* argument(const Node& call, std::size_t index,
                           const Types& types) {
  if (index >= call.args.size()) return nullptr;
  const auto* ref = std::get_if<NodeRef>(&call.args[index].value);
  if (!ref) return nullptr;
  const auto found = types.find(ref->name);
  return found == types.end() ? nullptr : found->second;
}

/// Every element of the result is a sum over the left side's last dimension.
std::int64_t product(const Node& call, std::size_t left, const Types& types) {
  const TensorType* a = argument(call, left, types);
  if (!a || a->shape.empty() || !call.values.front()) return 0;
  return 2 * element_count(*call.values.front()) * a->shape.back();
}

/// Every combination of the equation's letters is one term, but for what one
/// operand alone can be summed over beforehand. Several operands are multiplied
/// in an order that PyTorch chooses: not counted.
std::int64_t einsum(const Node& call, const Types& types) {
  if (call.args.size() < 2) return 0;
  const auto* text = std::get_if<std::string>(&call.args[0].value);
  const auto* operands = std::get_if<Arg::List>(&call.args[1].value);
  if (!text || !operands || operands->size() != 2) return 0;
  const auto equation = parse_einsum(*text);
  if (!equation || equation->operands.size() != 2) return 0;
  const std::string labels = equation->operands[0] + equation->operands[1];
  std::map<char, std::int64_t> extents;
  auto label = labels.begin();
  for (const Arg& operand : *operands) {
    const auto* ref = std::get_if<NodeRef>(&operand.value);
    const auto found = ref ? types.find(ref->name) : types.end();
    if (found == types.end()) return 0;
    for (const std::int64_t extent : found->second->shape) {
      if (label == labels.end()) return 0;
      std::int64_t& most = extents[*label++];
      most = std::max(most, extent);
    }
  }
  std::int64_t terms = 1;
  bool contracts = false;
  for (const auto& [name, extent] : extents) {
    const bool is_in_result = equation->result.contains(name);
    const bool in_both = std::ranges::count(labels, name) > 1;
    contracts = contracts || (in_both && !is_in_result);
    if (in_both || is_in_result) terms *= extent;
  }
  return contracts ? 2 * terms : 0;
}

bool is_transposed(const Node& call) {
  if (call.args.size() <= 6) return false;
  const auto* flag = std::get_if<bool>(&call.args[6].value);
  return flag && *flag;
}

/// Each element of the result (of the input, where it is transposed) takes
/// part in one filter's taps. Taps in the padding are counted.
std::int64_t convolution(const Node& call, const Types& types) {
  const TensorType* x = argument(call, 0, types);
  const TensorType* weight = argument(call, 1, types);
  if (!x || !weight || weight->shape.empty() || !call.values.front()) return 0;
  if (weight->shape.front() == 0) return 0;
  const std::int64_t taps = element_count(*weight) / weight->shape.front();
  const std::int64_t elements =
      element_count(is_transposed(call) ? *x : *call.values.front());
  return 2 * elements * taps;
}

/// Queries by keys, then the weights by values.
std::int64_t attention(const Node& call, const Types& types) {
  const TensorType* query = argument(call, 0, types);
  const TensorType* key = argument(call, 1, types);
  const TensorType* value = argument(call, 2, types);
  if (!query || !key || !value) return 0;
  if (query->shape.size() < 2 || key->shape.size() < 2) return 0;
  if (query->shape.back() == 0 || value->shape.empty()) return 0;
  const std::int64_t rows = element_count(*query) / query->shape.back();
  const std::int64_t keys = key->shape[key->shape.size() - 2];
  return 2 * rows * keys * (query->shape.back() + value->shape.back());
}

/// Of a product or attention; 0 for anything else.
std::int64_t matrix_product(const Node& call, const Types& types) {
  const std::string& op = call.target;
  if (op == "aten.mm.default" || op == "aten.bmm.default" ||
      op == "aten.mv.default" || op == "aten.dot.default" ||
      op == "aten.matmul.default" || op == "aten.linear.default") {
    return product(call, 0, types);
  }
  if (op == "aten.addmm.default" || op == "aten.baddbmm.default" ||
      op == "aten.addmv.default") {
    return product(call, 1, types);
  }
  if (op == "aten.einsum.default") return einsum(call, types);
  return op.contains("scaled_dot_product") ? attention(call, types) : 0;
}

void count(const Node& call, const Types& types, ProductCount& total) {
  const bool convolves = call.target == "aten.convolution.default";
  const std::int64_t operations =
      convolves ? convolution(call, types) : matrix_product(call, types);
  if (is_half(call.values.front()->dtype)) {
    total.half_operations += operations;
  } else if (convolves) {
    total.convolution_operations += operations;
  } else {
    total.matrix_operations += operations;
  }
}

}  // namespace

ProductCount count_products(const Graph& graph) {
  ProductCount total;
  Types types;
  for (const Node& node : graph.nodes) {
    if (node.values.empty() || !node.values.front()) continue;
    if (node.kind == NodeKind::call) count(node, types, total);
    types[node.name] = &*node.values.front();
  }
  return total;
}

ProductCount count_product(const Graph& graph, const Node& call) {
  ProductCount total;
  Types types;
  for_each_ref(call, [&](const std::string& name) {
    const Node* node = graph.find(name);
    if (node == nullptr || node->values.empty() || !node->values[0]) return;
    types[name] = &*node->values[0];
  });
  if (!call.values.empty() && call.values[0]) count(call, types, total);
  return total;
}

}  // namespace weft
