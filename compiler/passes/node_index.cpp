#include "compiler/passes/node_index.hpp"

#include "compiler/graph/graph_check.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {

NodeIndex::NodeIndex(const Graph& graph) : escaping_(escaping_nodes(graph)) {
  for (const Node& node : graph.nodes) {
    nodes_[node.name] = &node;
    for_each_ref(node, [&](const std::string& name) {
      readers_[name].push_back(&node);
    });
  }
}

const Node* NodeIndex::find(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : found->second;
}

const Node* NodeIndex::argument(const Node& call, std::size_t position) const {
  if (position >= call.args.size()) return nullptr;
  const auto* ref = std::get_if<NodeRef>(&call.args[position].value);
  return ref == nullptr ? nullptr : find(ref->name);
}

std::optional<double> NodeIndex::number(const Node& call,
                                        std::size_t position) {
  if (position >= call.args.size()) return std::nullopt;
  const auto& value = call.args[position].value;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::nullopt;
}

bool NodeIndex::is_inner(const Node& node) const {
  const auto found = readers_.find(node.name);
  return node.kind == NodeKind::call && found != readers_.end() &&
         found->second.size() == 1 && !escaping_.contains(node.name) &&
         type_of(&node) != nullptr;
}

const Node& NodeIndex::reader(const Node& node) const {
  return *readers_.find(node.name)->second.front();
}

const TensorType* type_of(const Node* node) {
  return node == nullptr || node->values.size() != 1 || !node->values[0]
             ? nullptr
             : &*node->values[0];
}

}  // namespace weft
