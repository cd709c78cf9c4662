#include "compiler/cuda/generate.hpp"

#include <algorithm>
#include <set>

#include "compiler/cuda/functions.hpp"
#include "compiler/cuda/launches.hpp"
#include "compiler/cuda/nest.hpp"
#include "compiler/cuda/prelude/prelude.hpp"
#include "compiler/fusion/lowerable.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/lowering/keep_values.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

std::string source_text(const Subgraph& subgraph, const std::string& variant,
                        const CudaModule& module) {
  return "// " + subgraph.type + " (" + subgraph.id + "), variant " + variant +
         "; made by weft.\n" + launches_comment(module) + "\n" +
         (module.free_rounding ? "#define WEFT_ROUNDS_FREELY\n" : "") +
         cuda_prelude(module.sections) + cuda_helpers(module.helpers) +
         module.kernels;
}

bool has_function(const std::string& function, DType dtype) {
  std::set<std::string> helpers;
  return cuda_call(function, dtype, {"", "", "", "", "", ""}, helpers)
      .has_value();
}

LoweringOptions lowering_options(const CudaVariant& variant,
                                 const GpuFacts& facts, bool free_rounding) {
  LoweringOptions options;
  options.has_function = &has_function;
  options.choices = facts.choices.lowering;
  options.choices.single_pass_elements = cuda_row_max(variant, facts);
  options.depthwise = true;
  options.halves = true;
  options.eager_on_gpu = !facts.interpreted;
  options.free_rounding = free_rounding;
  return options;
}

/// Whether a reduction reads its elements several times over: overlapping
/// windows.
bool reduces_windows(const Program& program, const Nest& nest) {
  for (const Stage& stage : nest.stages) {
    if (!stage.is_reduction || stage.inner.empty()) continue;
    const std::int64_t reads = extent_of(nest.outer) * extent_of(stage.inner);
    for (const ExprId id : program.arena.reachable({stage.value})) {
      const Scalar& node = program.arena[id];
      if (node.op != ScalarOp::load || node.index.size() != 1) continue;
      const Buffer& read = program.buffers[node.buffer];
      if (elements_of(node.index[0]) == reads &&
          reads > 2 * elements_of(read)) {
        return nest.outer_reduction;
      }
    }
  }
  return false;
}

bool has_halves(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    return std::ranges::any_of(node.values, [](const auto& value) {
      return value && is_half(value->dtype);
    });
  });
}

/// All results are halves, and what is a little off leaves them a little off: a
/// quotient that is not quite 1 would be far off where it is rounded down.
bool may_approximate(const Graph& graph) {
  static const std::set<std::string_view> smooth = {
      "_softmax",   "_log_softmax",
      "exp",        "sigmoid",
      "silu",       "tanh",
      "gelu",       "add",
      "sub",        "mul",
      "div",        "neg",
      "relu",       "sum",
      "mean",       "amax",
      "amin",       "native_layer_norm",
      "layer_norm", "native_group_norm",
      "group_norm", "rms_norm",
      "getitem"};
  return std::ranges::all_of(graph.nodes, [&](const Node& node) {
    const bool is_output =
        std::ranges::find(graph.outputs, node.name) != graph.outputs.end();
    const bool fits = std::ranges::all_of(node.values, [&](const auto& value) {
      return !value || is_half(value->dtype) ||
             (value->dtype == DType::f32 && !is_output);
    });
    return fits && (node.kind != NodeKind::call || is_view(node.target) ||
                    is_copy(node.target) ||
                    (smooth.contains(operator_name(node.target)) &&
                     !node.target.ends_with("_mode")));
  });
}

Schedule schedule_of(const Graph& graph, const CudaVariant& variant,
                     const GpuFacts& facts, bool free_rounding,
                     const std::set<std::string>& keep) {
  LoweringOptions options = lowering_options(variant, facts, free_rounding);
  options.keep = keep;
  Result<Program> program = lower(graph, options);
  if (!program) throw Unsupported{program.error().message};
  LoopFacts schedule_facts;
  schedule_facts.cores = facts.sms;
  schedule_facts.whole_row = cuda_row_max(variant, facts);
  schedule_facts.on_gpu = true;
  schedule_facts.rates = facts.rates;
  schedule_facts.choices = facts.choices;
  return schedule(std::move(*program), schedule_facts);
}

CudaModule print_module(const Graph& graph, const CudaVariant& variant,
                        const GpuFacts& facts, bool free_rounding,
                        const std::set<std::string>& keep) {
  const Schedule plan = schedule_of(graph, variant, facts, free_rounding, keep);
  CudaModule module;
  module.free_rounding = free_rounding;
  if (has_halves(graph)) module.sections.insert("halves");
  module.approximate = may_approximate(graph);
  if (module.approximate) module.sections.insert("coarse");
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    module.scratch.push_back(
        {buffer.name, elements_of(buffer) * element_bytes(buffer.dtype)});
  }
  // Threads walk windows alike in all variants; Triton's may win there.
  module.varies = plan.nests.size() != 1 ||
                  !reduces_windows(plan.program, plan.nests.front());
  for (const Nest& nest : plan.nests) {
    const std::size_t before = module.launches.size();
    CudaNest printer(plan, nest, variant, facts, module);
    printer.print();
    add_reasons(module, nest, before, printer.tile_reason());
  }
  return module;
}

}  // namespace

Decision cuda_can_lower(const Graph& graph, const Node& call) {
  LoweringOptions options;
  options.has_function = &has_function;
  options.halves = true;
  return can_lower(graph, call, options);
}

Result<std::vector<KernelSource>> generate_cuda(
    const Subgraph& subgraph, const GpuFacts& facts,
    const GenerateOptions& options) try {
  std::vector<KernelSource> sources;
  std::set<std::string> seen;
  const auto variants = cuda_variants();
  const auto keep = worth_keeping(
      subgraph.graph,
      [&](const std::set<std::string>& materialized) {
        return schedule_of(subgraph.graph, variants.front().variant, facts,
                           options.free_rounding, materialized);
      },
      facts.rates, facts.choices.lowering);
  for (const auto& [name, variant] : variants) {
    if (static_cast<int>(sources.size()) >= options.variants_max) break;
    const CudaModule module = print_module(subgraph.graph, variant, facts,
                                           options.free_rounding, keep);
    if (variant.streams && !module.streams) continue;
    if (!seen.insert(source_text(subgraph, "", module)).second) continue;
    sources.push_back(
        {name, source_text(subgraph, name, module), module.reasons});
    if (!module.varies) break;
  }
  return sources;
} catch (const Unsupported& reason) {
  return fail(ErrorCode::wrong_input, "no CUDA code: " + reason.what);
}

}  // namespace weft
