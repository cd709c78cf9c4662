#include "compiler/triton/module_text.hpp"

#include <map>

#include "compiler/compose/compose.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/compose/sized_sources.hpp"
#include "compiler/triton/functions.hpp"

namespace weft {
namespace {

/// "batch, sequence"
std::string sizes_of(const TritonModule& module) {
  std::string text;
  for (const std::string_view name : module.sizes) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::string inputs_text(const Graph& graph, const TritonModule& module) {
  const bool for_sizes = module.for_sizes();
  const std::string indent(for_sizes ? 4 : 0, ' ');
  std::string list = "[\n";
  for (const std::string& name : input_names(graph)) {
    const TensorType& type = tensor_type(graph, name);
    list += indent + "    (" + python_tuple(type.shape) + ", " +
            python_tuple(type.stride) + ", " + torch_type(type.dtype) + "),\n";
  }
  list += indent + "]\n";
  return for_sizes
             ? "def inputs_at(" + sizes_of(module) + "):\n    return " + list
             : "INPUTS = " + list;
}

std::string names_text(const std::string& prefix, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + prefix + std::to_string(i);
  }
  return text;
}

std::string launch_text(const TritonModule& module,
                        const TritonLaunch& launch) {
  std::string text =
      "    " + launch.kernel + "[(" + launch.programs.text + ",)](";
  for (const std::string& name : launch.tensors) text += name + ", ";
  if (module.for_sizes()) {
    for (const std::string_view name : module.sizes) {
      const std::string size(name);
      text += size + "=" + size + ", ";
    }
    text += "integer=integer, ";
  }
  return text + "num_warps=" + std::to_string(launch.warps) +
         ", num_stages=" + std::to_string(launch.stages) +
         // Products are rounded before they are added; tl.fma still fuses.
         (module.free_rounding ? "" : ", enable_fp_fusion=False") +
         // Its assertions; what overflows may, as in PyTorch.
         (module.helpers.contains("in_bounds")
              ? ", debug=True, sanitize_overflow=False)\n"
              : ")\n");
}

/// How wide positions are at that size. Those in use may lie a little outside
/// of memory (where a tile is masked), and are sums of such: 32 bits hold twice
/// as much.
std::string integer_line(const TritonModule& module) {
  return "    widest = max(" + python_tuple(module.spans) +
         ")\n    integer = tl.int64 if widest > 1 << 30 else tl.int32\n";
}

/// What makes each tensor that is no input, by its name.
std::map<std::string, std::string> allocations(const Graph& graph,
                                               const TritonModule& module) {
  std::map<std::string, std::string> lines;
  std::size_t at = 0;
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    const std::string name = "out" + std::to_string(at++);
    lines[name] = "    " + name + " = torch.empty_strided(\n        " +
                  python_tuple(type.shape) + ", " + python_tuple(type.stride) +
                  ", dtype=" + torch_type(type.dtype) +
                  ", device=in0.device)\n";
  }
  for (const TritonScratch& scratch : module.scratch) {
    lines[scratch.name] = "    " + scratch.name + " = torch.empty(" +
                          std::to_string(scratch.elements) +
                          ", dtype=" + torch_type(scratch.dtype) +
                          ", device=in0.device)\n";
  }
  return lines;
}

// Memory is asked for when it is needed: the device is idle until the first
// launch, and busy from then on.
std::string function_text(const Subgraph& subgraph,
                          const TritonModule& module) {
  const Graph& graph = subgraph.graph;
  const std::size_t inputs = input_names(graph).size();
  std::string text = "def kernel_function(" + names_text("in", inputs);
  if (module.for_sizes()) text += ", " + sizes_of(module);
  text += "):\n";
  if (module.for_sizes()) text += integer_line(module);
  std::map<std::string, std::string> due = allocations(graph, module);
  for (const TritonLaunch& launch : module.launches) {
    for (const std::string& name : launch.tensors) {
      const auto allocation = due.extract(name);
      if (allocation) text += allocation.mapped();
    }
    text += launch_text(module, launch);
  }
  for (const auto& [name, line] : due) text += line;
  return text + "    return " + names_text("out", graph.outputs.size()) + "\n";
}

}  // namespace

std::string triton_source(const Subgraph& subgraph, const std::string& variant,
                          const TritonModule& module) {
  return "\"\"\"" + subgraph.type + " (" + subgraph.id + "), variant " +
         variant +
         "; made by weft.\"\"\"\n\nimport torch\nimport triton\n"
         "import triton.language as tl\n\n#: Shape, stride and type of each "
         "input, which kernels are made for.\n" +
         inputs_text(subgraph.graph, module) + "\n\n" +
         triton_helpers(module.helpers) + module.kernels +
         function_text(subgraph, module);
}

std::string triton_batches(const Sizes& sizes) {
  std::vector<Sizes> all = judged_sizes(sizes);
  all.insert(all.begin(), sizes);
  std::string text;
  for (const Sizes& batch : all) {
    text +=
        (text.empty() ? "" : ", ") +
        (batch.size() == 1 ? std::to_string(batch[0]) : python_tuple(batch));
  }
  return "\n\n#: Batches that a package is built for.\nBATCHES = (" + text +
         ")\n";
}

}  // namespace weft
