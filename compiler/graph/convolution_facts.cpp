#include "compiler/graph/convolution_facts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/graph/operator_facts.hpp"

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

/// That argument as one number a direction, where it may be one for all; empty
/// if it is not.
std::vector<std::int64_t> each_way(const Node& call, std::size_t position,
                                   std::size_t ways) {
  std::vector<std::int64_t> found;
  const auto* list = std::get_if<Arg::List>(&call.args[position].value);
  if (list == nullptr || (list->size() != ways && list->size() != 1)) return {};
  for (const Arg& arg : *list) {
    const auto* value = std::get_if<std::int64_t>(&arg.value);
    if (value == nullptr) return {};
    found.push_back(*value);
  }
  found.resize(ways, found[0]);
  return found;
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
  const auto* transposed = std::get_if<bool>(&call.args[6].value);
  const auto* groups = std::get_if<std::int64_t>(&call.args[8].value);
  if (!found.image || !found.weight || !found.result || !transposed ||
      !groups || found.weight->shape.size() < 3) {
    return std::nullopt;
  }
  const std::size_t ways = found.weight->shape.size() - 2;
  found.steps = each_way(call, 3, ways);
  found.padding = each_way(call, 4, ways);
  found.dilation = each_way(call, 5, ways);
  found.more = each_way(call, 7, ways);
  if (found.steps.empty() || found.padding.empty() || found.dilation.empty() ||
      found.more.empty()) {
    return std::nullopt;
  }
  found.groups = *groups;
  found.transposed = *transposed;
  found.window = std::accumulate(found.weight->shape.begin() + 2,
                                 found.weight->shape.end(), std::int64_t{1},
                                 std::multiplies<>());
  return found;
}

}  // namespace weft
