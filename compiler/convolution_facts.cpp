#include "compiler/convolution_facts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/operator_facts.hpp"

namespace weft {
namespace {

const TensorType* type_of(const Node* node) {
  if (node == nullptr || node->values.empty() || !node->values[0]) {
    return nullptr;
  }
  return &*node->values[0];
}

const TensorType* type_of(const Graph& graph, const Arg& arg) {
  const auto* ref = std::get_if<NodeRef>(&arg.value);
  return ref == nullptr ? nullptr : type_of(graph.find(ref->name));
}

}  // namespace

std::optional<Convolution> convolution_of(const Graph& graph,
                                          const Node& call) {
  if (call.kind != NodeKind::call || call.args.size() < 9 ||
      operator_name(call.target) != "convolution") {
    return std::nullopt;
  }
  Convolution found;
  found.image = type_of(graph, call.args[0]);
  found.weight = type_of(graph, call.args[1]);
  found.result = type_of(&call);
  const auto* steps = std::get_if<Arg::List>(&call.args[3].value);
  const auto* transposed = std::get_if<bool>(&call.args[6].value);
  const auto* groups = std::get_if<std::int64_t>(&call.args[8].value);
  if (!found.image || !found.weight || !found.result || !steps || !transposed ||
      !groups || found.weight->shape.size() < 3) {
    return std::nullopt;
  }
  found.groups = *groups;
  found.transposed = *transposed;
  found.window = std::accumulate(found.weight->shape.begin() + 2,
                                 found.weight->shape.end(), std::int64_t{1},
                                 std::multiplies<>());
  found.strides = std::ranges::none_of(
      *steps, [](const Arg& step) { return step == Arg{std::int64_t{1}}; });
  return found;
}

}  // namespace weft
