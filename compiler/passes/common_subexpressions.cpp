#include <algorithm>
#include <map>
#include <set>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/graph_json.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {

namespace {

/// Equal texts compute equal values.
std::string call_text(const Node& node) {
  Json text = Json::array({node.target, Json::array(), Json::array()});
  for (const Arg& arg : node.args) text[1].push_back(arg_to_value(arg));
  for (const auto& [key, arg] : node.kwargs) {
    text[2].push_back(Json::array({key, arg_to_value(arg)}));
  }
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

bool writes_in_place(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    return node.kind == NodeKind::call && is_impure(node.target) &&
           !is_random(node.target);
  });
}

std::set<std::string> escaping_nodes(const Graph& graph) {
  std::set<std::string> escaping(graph.outputs.begin(), graph.outputs.end());
  for (const Mutation& mutation : graph.mutations) {
    escaping.insert(mutation.node);
  }
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool passes_on = is_view(node->target) || node->target == "getitem";
    if (!passes_on || !escaping.contains(node->name)) continue;
    for_each_ref(*node,
                 [&](const std::string& name) { escaping.insert(name); });
  }
  return escaping;
}

Graph eliminate_common_subexpressions(Graph graph) {
  if (writes_in_place(graph)) return graph;
  std::set<std::string> escaping = escaping_nodes(graph);
  std::map<std::string, std::string> first_of;  // call text → node
  std::map<std::string, std::string> renamed;
  const auto rename = [&](const std::string& name) {
    auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  };

  std::vector<Node> remaining;
  for (Node& node : graph.nodes) {
    rename_refs(node, rename);
    if (node.kind == NodeKind::call && !is_impure(node.target)) {
      const auto [found, is_new] = first_of.emplace(call_text(node), node.name);
      const bool both_escape =
          escaping.contains(node.name) && escaping.contains(found->second);
      if (!is_new && !both_escape) {
        if (escaping.contains(node.name)) escaping.insert(found->second);
        renamed[node.name] = found->second;
        continue;
      }
    }
    remaining.push_back(std::move(node));
  }
  graph.nodes = std::move(remaining);
  for (std::string& name : graph.outputs) name = rename(name);
  for (Mutation& mutation : graph.mutations) {
    mutation.node = rename(mutation.node);
  }
  return graph;
}

}  // namespace weft
