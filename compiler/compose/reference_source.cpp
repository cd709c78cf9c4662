#include "compiler/compose/reference_source.hpp"

namespace weft {

namespace {

constexpr std::string_view kGetInputs = R"py(

def get_inputs(seed=0):
    """Random tensors as INPUTS describes them; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [_random_tensor(spec, generator) for spec in INPUTS]


def _random_tensor(spec, generator):
    shape, stride = spec["shape"], spec["stride"]
    dtype = getattr(torch, spec["dtype"])
    elements = 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    if 0 in shape:
        elements = 0
    if dtype == torch.bool:
        storage = torch.randint(0, 2, (elements,), generator=generator)
    elif dtype.is_floating_point:
        storage = torch.randn(elements, generator=generator)
    else:
        storage = torch.randint(0, 8, (elements,), generator=generator)
    return torch.as_strided(storage.to(dtype), shape, stride)
)py";

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

std::string spec_text(const TensorType& type) {
  return "    {\"shape\": " + list_text(type.shape) +
         ", \"stride\": " + list_text(type.stride) + ", \"dtype\": \"" +
         std::string(dtype_name(type.dtype)) + "\"},\n";
}

}  // namespace

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
  return "\"\"\"Reference of " + subgraph.id + " (" + subgraph.type +
         "): ATen calls as captured from the model.\"\"\"\n\nimport torch\n\n"
         "INPUTS = [\n" +
         inputs + "]\nOUTPUTS = [\n" + outputs + "]\n\n\n" +
         python_function(graph, "reference", Precision::captured) +
         std::string(kGetInputs);
}

}  // namespace weft
