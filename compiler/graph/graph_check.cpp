#include "compiler/graph/graph_check.hpp"

#include <algorithm>
#include <set>

#include "compiler/graph/printed_text.hpp"

namespace weft {

namespace {

bool has_sound_symbols(const Arg& arg) {
  if (const auto* symbol = std::get_if<Symbol>(&arg.value)) {
    return is_symbol_text(symbol->value);
  }
  const auto* list = std::get_if<Arg::List>(&arg.value);
  return list == nullptr || std::ranges::all_of(*list, has_sound_symbols);
}

std::unexpected<Error> broken(const Node& node, const std::string& what) {
  return fail(ErrorCode::wrong_input,
              "captured graph: node " + node.name + ": " + what);
}

Result<void> check_getitem(const Graph& graph, const Node& node) {
  const auto* ref = node.args.size() == 2
                        ? std::get_if<NodeRef>(&node.args[0].value)
                        : nullptr;
  const auto* index =
      ref ? std::get_if<std::int64_t>(&node.args[1].value) : nullptr;
  if (!index) return broken(node, "getitem needs a node and an index");
  const Node* tuple = graph.find(ref->name);
  if (!tuple || !tuple->is_tuple || *index < 0 ||
      *index >= static_cast<std::int64_t>(tuple->values.size())) {
    return broken(
        node, "getitem reads a value that " + ref->name + " does not return");
  }
  return {};
}

Result<void> check_values(const Node& node) {
  const auto negative = [](std::int64_t size) { return size < 0; };
  for (const auto& value : node.values) {
    if (value && (std::ranges::any_of(value->shape, negative) ||
                  std::ranges::any_of(value->stride, negative))) {
      return broken(node, "a shape or stride is negative");
    }
    if (value && value->shape.size() != value->stride.size()) {
      return broken(node, "shape and stride differ in length");
    }
  }
  return {};
}

Result<void> check_parts(const Graph& graph) {
  std::set<std::string> known;
  for (const Part& part : graph.parts) {
    const auto dot = part.module.rfind('.');
    const std::string above =
        dot == std::string::npos ? "" : part.module.substr(0, dot);
    if (!known.contains(above) && !part.module.empty()) {
      return fail(ErrorCode::wrong_input,
                  "captured graph: part " + part.module + ": it is in nothing");
    }
    if (!known.insert(part.module).second) {
      return fail(ErrorCode::wrong_input,
                  "captured graph: part " + part.module + ": told of twice");
    }
  }
  return {};
}

void visit_arg(const Arg& arg,
               const std::function<void(const std::string&)>& visit) {
  if (const auto* ref = std::get_if<NodeRef>(&arg.value)) visit(ref->name);
  if (const auto* list = std::get_if<Arg::List>(&arg.value)) {
    for (const Arg& item : *list) visit_arg(item, visit);
  }
}

void rename_arg(Arg& arg,
                const std::function<std::string(const std::string&)>& rename) {
  if (auto* ref = std::get_if<NodeRef>(&arg.value)) {
    ref->name = rename(ref->name);
  }
  if (auto* list = std::get_if<Arg::List>(&arg.value)) {
    for (Arg& item : *list) rename_arg(item, rename);
  }
}

}  // namespace

void for_each_ref(const Node& node,
                  const std::function<void(const std::string&)>& visit) {
  for (const Arg& arg : node.args) visit_arg(arg, visit);
  for (const auto& [key, arg] : node.kwargs) visit_arg(arg, visit);
}

void rename_refs(Node& node,
                 const std::function<std::string(const std::string&)>& rename) {
  for (Arg& arg : node.args) rename_arg(arg, rename);
  for (auto& [key, arg] : node.kwargs) rename_arg(arg, rename);
}

Result<void> check_graph(const Graph& graph) {
  if (auto checked = check_parts(graph); !checked) return checked;
  std::set<std::string> known;
  for (const Node& node : graph.nodes) {
    if (!is_identifier(node.name)) return broken(node, "not an identifier");
    std::string missing;
    for_each_ref(node, [&](const std::string& name) {
      if (!known.contains(name)) missing = name;
    });
    if (!missing.empty()) {
      return broken(node,
                    "uses " + missing + ", which no earlier node defines");
    }
    if (!known.insert(node.name).second) return broken(node, "defined twice");
    if (auto checked = check_values(node); !checked) return checked;
    if (node.kind == NodeKind::input && !is_input_path(node.target)) {
      return broken(node, "'" + node.target + "' is no argument of forward()");
    }
    if (node.kind != NodeKind::call) continue;
    if (!std::ranges::all_of(node.args, has_sound_symbols)) {
      return broken(node, "an argument is no dtype, device or layout");
    }
    if (node.target == "getitem") {
      if (auto checked = check_getitem(graph, node); !checked) return checked;
    } else if (!is_operator_name(node.target)) {
      return broken(node, "'" + node.target + "' is no operator name");
    }
    for (const auto& [key, arg] : node.kwargs) {
      if (!is_identifier(key)) return broken(node, "bad keyword " + key);
      if (!has_sound_symbols(arg)) {
        return broken(node, key + " is no dtype, device or layout");
      }
    }
  }
  for (const std::string& name : graph.outputs) {
    if (!known.contains(name)) {
      return fail(ErrorCode::wrong_input,
                  "captured graph: output " + name + " is not a node");
    }
  }
  if (!is_output_template(graph.output_template, graph.outputs.size())) {
    return fail(ErrorCode::wrong_input,
                "captured graph: its output template is not an expression of "
                "its outputs");
  }
  for (const Mutation& mutation : graph.mutations) {
    if (!known.contains(mutation.node) ||
        (mutation.is_input && !known.contains(mutation.target))) {
      return fail(ErrorCode::wrong_input, "captured graph: mutation of " +
                                              mutation.target +
                                              " names an unknown node");
    }
  }
  return {};
}

}  // namespace weft
