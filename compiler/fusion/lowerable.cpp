#include "compiler/fusion/lowerable.hpp"

#include <algorithm>
#include <set>

#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

// The nodes that an argument names, as inputs of a graph of their own.
class Arguments {
 public:
  explicit Arguments(const Graph& graph) : graph_(graph) {}

  bool add(const Arg& arg) {
    if (const auto* list = std::get_if<Arg::List>(&arg.value)) {
      return std::all_of(list->begin(), list->end(),
                         [&](const Arg& a) { return add(a); });
    }
    const auto* ref = std::get_if<NodeRef>(&arg.value);
    if (ref == nullptr || !known_.insert(ref->name).second) return true;
    const Node* node = graph_.find(ref->name);
    if (node == nullptr) return false;
    Node input = *node;
    input.kind = NodeKind::input;
    inputs_.push_back(std::move(input));
    return true;
  }
  std::vector<Node> take() { return std::move(inputs_); }

 private:
  const Graph& graph_;
  std::set<std::string> known_;
  std::vector<Node> inputs_;
};

}  // namespace

std::optional<Graph> single_call_graph(const Graph& graph, const Node& call) {
  Arguments arguments(graph);
  for (const Arg& arg : call.args) {
    if (!arguments.add(arg)) return std::nullopt;
  }
  for (const auto& [name, arg] : call.kwargs) {
    if (!arguments.add(arg)) return std::nullopt;
  }
  Graph single;
  single.nodes = arguments.take();
  single.nodes.push_back(call);
  // Of several results, all that are read must be there.
  for (const Node& node : graph.nodes) {
    if (!call.is_tuple || node.target != "getitem" || node.args.empty()) {
      continue;
    }
    const auto* ref = std::get_if<NodeRef>(&node.args[0].value);
    if (ref != nullptr && ref->name == call.name) single.nodes.push_back(node);
  }
  return single;
}

Decision can_lower(const Graph& graph, const Node& call,
                   const LoweringOptions& options) {
  if (call.kind != NodeKind::call) return {false, "it is no call"};
  if (call.target == "getitem") {
    const auto* ref =
        call.args.empty() ? nullptr : std::get_if<NodeRef>(&call.args[0].value);
    const Node* tuple = ref == nullptr ? nullptr : graph.find(ref->name);
    if (tuple == nullptr) return {false, "it reads no call's result"};
    return can_lower(graph, *tuple, options);
  }
  const auto single = single_call_graph(graph, call);
  if (!single) return {false, "it reads a value that the graph does not have"};
  const auto program = lower(*single, options);
  return {
      program.has_value(),
      program ? "" : "the compiler has no code: " + program.error().message};
}

}  // namespace weft
