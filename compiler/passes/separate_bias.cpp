#include <algorithm>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {
namespace {

constexpr std::size_t kBiasAt = 2;

bool has_bias(const Node& node) {
  return node.kind == NodeKind::call &&
         operator_name(node.target) == "convolution" &&
         node.args.size() > kBiasAt &&
         std::holds_alternative<NodeRef>(node.args[kBiasAt].value);
}

bool reads(const Node& node, const std::string& name) {
  bool found = false;
  for_each_ref(node, [&](const std::string& ref) { found |= ref == name; });
  return found;
}

/// The bias as it stands beside a result of that many dimensions.
Node beside(const std::string& name, const NodeRef& bias,
            const TensorType& result) {
  TensorType type{result.dtype, {}, {}};
  type.shape.assign(result.shape.size() - 1, 1);
  type.stride = type.shape;
  type.shape[0] = result.shape[1];
  Arg::List shape;
  for (const std::int64_t extent : type.shape) shape.push_back({extent});
  Node view;
  view.name = name;
  view.target = "aten.view.default";
  view.args = {{bias}, {std::move(shape)}};
  view.values = {std::move(type)};
  return view;
}

}  // namespace

Graph separate_bias(Graph graph, const Lowerable& lowerable) {
  const auto is_profitable = [&](const Node& node) {
    return has_bias(node) && !lowerable(graph, node) &&
           std::ranges::any_of(graph.nodes, [&](const Node& user) {
             return user.kind == NodeKind::call && reads(user, node.name) &&
                    lowerable(graph, user);
           });
  };
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes) {
    if (!is_profitable(node)) {
      nodes.push_back(node);
      continue;
    }
    Node bare = node;
    bare.name = graph.unused_name(node.name + "_without_bias");
    bare.args[kBiasAt] = {};
    Node view =
        beside(graph.unused_name(node.name + "_bias"),
               std::get<NodeRef>(node.args[kBiasAt].value), *node.values[0]);
    Node sum;
    sum.name = node.name;
    sum.target = "aten.add.Tensor";
    sum.args = {{NodeRef{bare.name}}, {NodeRef{view.name}}};
    sum.values = node.values;
    sum.source = view.source = node.source;
    nodes.insert(nodes.end(), {std::move(bare), std::move(view), sum});
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace weft
