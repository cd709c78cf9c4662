#include "compiler/compose/reference_source.hpp"

#include "embedded/compiler/compose/python/get_inputs.py"

namespace weft {

namespace {

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

std::string spec_text(const TensorType& type) {
  return spec_row(list_text(type.shape), list_text(type.stride),
                  std::string(dtype_name(type.dtype)));
}

}  // namespace

std::string spec_row(const std::string& shape, const std::string& stride,
                     const std::string& dtype) {
  return "    {\"shape\": " + shape + ", \"stride\": " + stride +
         ", \"dtype\": \"" + dtype + "\"},\n";
}

std::string reference_file(const std::string& title, const std::string& inputs,
                           const std::string& outputs,
                           const std::string& function) {
  return "\"\"\"" + title + "\"\"\"\n\nimport torch\n\nINPUTS = [\n" + inputs +
         "]\nOUTPUTS = [\n" + outputs + "]\n\n\n" + function +
         std::string(embedded::compiler_compose_python_get_inputs);
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call) names.push_back(node.name);
  }
  return names;
}

const TensorType& tensor_type(const Graph& graph, const std::string& name) {
  return *graph.find(name)->values.front();
}

std::string python_function(const Graph& graph, const std::string& name,
                            Precision precision) {
  std::string text =
      "def " + name + "(" + joined_names(input_names(graph)) + "):\n";
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call) continue;
    text += "    " + node.name + " = " + python_call(node, precision);
    // A file's name may hold a line break; a comment may not.
    if (!node.source.empty() &&
        node.source.find_first_of("\r\n") == std::string::npos) {
      text += "  # " + node.source;
    }
    text += "\n";
  }
  return text + "    return " + joined_names(graph.outputs) + "\n";
}

std::string reference_source(const Subgraph& subgraph) {
  const Graph& graph = subgraph.graph;
  std::string inputs;
  for (const std::string& name : input_names(graph)) {
    inputs += spec_text(tensor_type(graph, name));
  }
  std::string outputs;
  for (const std::string& name : graph.outputs) {
    outputs += spec_text(tensor_type(graph, name));
  }
  return reference_file(
      "Reference of " + subgraph.id + " (" + subgraph.type +
          "): ATen calls as captured from the model.",
      inputs, outputs,
      python_function(graph, "reference", Precision::captured));
}

}  // namespace weft
