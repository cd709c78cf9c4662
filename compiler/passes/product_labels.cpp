#include "compiler/passes/product_labels.hpp"

#include <numeric>

#include "compiler/graph/einsum_equation.hpp"

namespace weft {
namespace {

std::optional<ProductLabels> of_einsum(const NodeIndex& index,
                                       const Node& call) {
  if (call.args.size() != 2 || !call.kwargs.empty()) return std::nullopt;
  const auto* text = std::get_if<std::string>(&call.args[0].value);
  const auto* list = std::get_if<Arg::List>(&call.args[1].value);
  const auto parsed = text ? parse_einsum(*text) : std::nullopt;
  if (list == nullptr || list->size() != 2 || !parsed ||
      parsed->operands.size() != 2 || has_twice(parsed->operands[0]) ||
      has_twice(parsed->operands[1]) || has_twice(parsed->result)) {
    return std::nullopt;
  }
  const auto node = [&](std::size_t i) -> const Node* {
    const auto* ref = std::get_if<NodeRef>(&(*list)[i].value);
    return ref == nullptr ? nullptr : index.find(ref->name);
  };
  return ProductLabels{node(0), node(1), parsed->operands[0],
                       parsed->operands[1], parsed->result};
}

ProductLabels of_matrices(const Node* left, const Node* right,
                          std::size_t rank) {
  Labels batch;
  for (std::size_t i = 2; i < rank; ++i) {
    batch += static_cast<char>('A' + static_cast<int>(i));
  }
  return {left, right, batch + "mk", batch + "kn", batch + "mn"};
}

}  // namespace

std::optional<ProductLabels> product_labels(const NodeIndex& index,
                                            const Node& call) {
  std::optional<ProductLabels> found;
  const TensorType* type = type_of(&call);
  if (type == nullptr) return std::nullopt;
  if (call.target == "aten.einsum.default") {
    found = of_einsum(index, call);
  } else if (call.target == "aten.mm.default" ||
             call.target == "aten.bmm.default" ||
             call.target == "aten.matmul.default") {
    found = of_matrices(index.argument(call, 0), index.argument(call, 1),
                        type->shape.size());
  } else if (call.target == "aten.baddbmm.default") {
    found = of_matrices(index.argument(call, 1), index.argument(call, 2), 3);
  }
  if (!found) return std::nullopt;
  const TensorType* left = type_of(found->left);
  const TensorType* right = type_of(found->right);
  const bool fits = left != nullptr && right != nullptr &&
                    left->shape.size() == found->of_left.size() &&
                    right->shape.size() == found->of_right.size() &&
                    type->shape.size() == found->of_result.size();
  return fits ? found : std::nullopt;
}

std::optional<Labels> before_permuting(const NodeIndex& index, const Node& call,
                                       const Labels& labels) {
  const TensorType* from = type_of(index.argument(call, 0));
  if (from == nullptr || from->shape.size() != labels.size()) {
    return std::nullopt;
  }
  const auto rank = static_cast<std::int64_t>(labels.size());
  const auto dim_of = [&](const Arg& arg) -> std::int64_t {
    const auto* dim = std::get_if<std::int64_t>(&arg.value);
    if (dim == nullptr || *dim < -rank || *dim >= rank) return -1;
    return *dim < 0 ? *dim + rank : *dim;
  };
  std::vector<std::int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  if (call.target == "aten.permute.default" && call.args.size() == 2) {
    const auto* list = std::get_if<Arg::List>(&call.args[1].value);
    if (list == nullptr || list->size() != labels.size()) return std::nullopt;
    for (std::size_t i = 0; i < list->size(); ++i)
      order[i] = dim_of((*list)[i]);
  } else if (call.target == "aten.transpose.int" && call.args.size() == 3) {
    const std::int64_t a = dim_of(call.args[1]), b = dim_of(call.args[2]);
    if (a < 0 || b < 0) return std::nullopt;
    std::swap(order[static_cast<std::size_t>(a)],
              order[static_cast<std::size_t>(b)]);
  } else if (call.target == "aten.t.default" && rank == 2) {
    std::swap(order[0], order[1]);
  } else {
    return std::nullopt;
  }
  Labels before = labels;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0) return std::nullopt;
    before[static_cast<std::size_t>(order[i])] = labels[i];
  }
  return before;
}

}  // namespace weft
