#include "compiler/triton/generate.hpp"

#include <algorithm>
#include <map>

#include "compiler/compose/compose.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/fusion/lowerable.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/loops/interior.hpp"
#include "compiler/loops/unroll_and_jam.hpp"
#include "compiler/lowering/lower.hpp"
#include "compiler/triton/choice.hpp"
#include "compiler/triton/dot.hpp"
#include "compiler/triton/functions.hpp"
#include "compiler/triton/nest.hpp"

namespace weft {
namespace {

std::string inputs_text(const Graph& graph) {
  std::string text = "INPUTS = [\n";
  for (const std::string& name : input_names(graph)) {
    const TensorType& type = tensor_type(graph, name);
    text += "    (" + python_tuple(type.shape) + ", " +
            python_tuple(type.stride) + ", " + torch_type(type.dtype) + "),\n";
  }
  return text + "]\n";
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
      "    " + launch.kernel + "[(" + std::to_string(launch.programs) + ",)](";
  for (const std::string& name : launch.tensors) text += name + ", ";
  return text + "num_warps=" + std::to_string(launch.warps) +
         ", num_stages=" + std::to_string(launch.stages) +
         // Products are rounded before they are added; tl.fma still fuses.
         (module.free_rounding ? "" : ", enable_fp_fusion=False") +
         // Its assertions; what overflows may, as in the framework.
         (module.helpers.contains("in_bounds")
              ? ", debug=True, sanitize_overflow=False)\n"
              : ")\n");
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
  std::string text = "def kernel_function(" + names_text("in", inputs) + "):\n";
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

std::string source_text(const Subgraph& subgraph, const std::string& variant,
                        const TritonModule& module) {
  return "\"\"\"" + subgraph.type + " (" + subgraph.id + "), variant " +
         variant +
         "; made by weft.\"\"\"\n\nimport torch\nimport triton\n"
         "import triton.language as tl\n\n#: Shape, stride and type of each "
         "input, which kernels are made for.\n" +
         inputs_text(subgraph.graph) + "\n\n" + triton_helpers(module.helpers) +
         module.kernels + function_text(subgraph, module);
}

/// Whether all products of the subgraph may be TF32.
bool is_tf32(const Graph& graph) {
  bool any = false;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call || !is_product(node.target)) continue;
    if (!node.tf32) return false;
    any = true;
  }
  return any;
}

std::string variant_name(const TritonVariant& v, bool tf32) {
  std::string name =
      "tile" + std::to_string(v.tile) + " row" + std::to_string(v.row_max) +
      " each" + std::to_string(v.per_thread) + " dot" +
      std::to_string(v.dot_rows) + "x" + std::to_string(v.dot_columns) + "x" +
      std::to_string(v.dot_folded) + " warps" + std::to_string(v.dot_warps);
  if (v.presplits) name += " split";
  if (tf32) name += v.exact ? " exact" : " tf32";
  if (v.windows) name += " windows";
  if (v.jams) name += " jam";
  return name;
}

bool has_function(const std::string& function, DType dtype) {
  std::set<std::string> helpers;
  return triton_call(function, dtype, {"", "", "", "", "", ""}, helpers)
      .has_value();
}

LoweringOptions lowering_options(const TritonVariant& variant,
                                 const LoweringChoices& choices,
                                 bool free_rounding = false) {
  LoweringOptions options;
  options.choices = choices;
  options.choices.single_pass_elements = variant.row_max;
  options.has_function = &has_function;
  options.contractions = true;
  options.halves = true;
  options.free_rounding = free_rounding;
  return options;
}

/// Products and convolutions of halves are the library's, but for depthwise
/// ones.
bool is_product_of_halves(const Graph& graph, const Node& call,
                          const LoweringChoices& choices) {
  if (call.values.empty() || !call.values[0] ||
      !is_half(call.values[0]->dtype)) {
    return false;
  }
  LoweringOptions options = lowering_options({}, choices);
  options.contractions = false;
  options.depthwise = true;
  return !can_lower(graph, call, options);
}

TritonModule print_module(const Graph& graph, const TritonVariant& variant,
                          const GpuFacts& facts, bool free_rounding) {
  Result<Program> program = lower(
      graph, lowering_options(variant, facts.choices.lowering, free_rounding));
  if (!program) throw Unsupported{program.error().message};
  LoopFacts schedule_facts;
  schedule_facts.cores = facts.sms;
  schedule_facts.whole_row = variant.row_max;
  schedule_facts.on_gpu = true;
  schedule_facts.rates = facts.rates;
  schedule_facts.choices = facts.choices;
  schedule_facts.is_alone = [&facts](const Program& of, const Stage& stage) {
    return is_contraction(of, stage, facts.choices.triton.product);
  };
  Schedule plan = schedule(std::move(*program), schedule_facts);
  if (variant.jams) unroll_and_jam(plan, facts.choices.loops);
  if (variant.windows) find_interiors(plan);
  TritonModule module;
  module.free_rounding = free_rounding;
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    module.scratch.push_back({buffer.name, elements_of(buffer), buffer.dtype});
  }
  for (const Nest& nest : plan.nests) {
    print_triton_nest(plan, nest, variant, facts, module);
  }
  return module;
}

}  // namespace

bool triton_can_lower(const Graph& graph, const Node& call,
                      const CutOptions& cut) {
  const LoweringChoices& choices = cut.choices.lowering;
  if (!can_lower(graph, call, lowering_options({}, choices))) return false;
  return cut.no_extern || (competes_with_library(graph, call, cut) &&
                           !is_product_of_halves(graph, call, choices));
}

Result<std::vector<KernelSource>> generate_triton(
    const Subgraph& subgraph, const GpuFacts& facts,
    const GenerateOptions& options) try {
  std::vector<KernelSource> sources;
  std::set<std::string> seen;
  const bool tf32 = is_tf32(subgraph.graph);
  for (TritonVariant variant : triton_variants()) {
    if (static_cast<int>(sources.size()) >= options.variants_max) break;
    variant.exact = variant.exact || !tf32;
    const TritonModule module =
        print_module(subgraph.graph, variant, facts, options.free_rounding);
    if (!seen.insert(source_text(subgraph, "", module)).second) continue;
    const std::string name = variant_name(variant, tf32);
    sources.push_back({name, source_text(subgraph, name, module)});
  }
  return sources;
} catch (const Unsupported& reason) {
  return fail(ErrorCode::wrong_input, "no Triton code: " + reason.what);
}

}  // namespace weft
