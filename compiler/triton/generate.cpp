#include "compiler/triton/generate.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "compiler/compose/sized_sources.hpp"
#include "compiler/fusion/lowerable.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/graph/symbolic_shapes.hpp"
#include "compiler/loops/interior.hpp"
#include "compiler/loops/symbolic_loops.hpp"
#include "compiler/loops/unroll_and_jam.hpp"
#include "compiler/lowering/any_size.hpp"
#include "compiler/lowering/keep_values.hpp"
#include "compiler/lowering/lower.hpp"
#include "compiler/triton/choice.hpp"
#include "compiler/triton/dot.hpp"
#include "compiler/triton/functions.hpp"
#include "compiler/triton/module_text.hpp"
#include "compiler/triton/nest.hpp"

namespace weft {
namespace {

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
      std::to_string(v.block_m) + "x" + std::to_string(v.block_n) + "x" +
      std::to_string(v.block_k) + " warps" + std::to_string(v.dot_warps);
  if (v.fits) name += " fit";
  if (v.splits_factors) name += " split";
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

/// Of a sum of products that is for any size: convolutions' windows, and
/// attention's scores, are laid out by how large they are.
bool has_any_size(const Node& call) {
  return is_product(call.target) && operator_name(call.target) != "convolution";
}

/// Whether its large tensors are halves: those that have most elements.
bool is_of_halves(const Graph& graph) {
  std::int64_t most = 0;
  for (const Node& node : graph.nodes) {
    for (const auto& value : node.values) {
      if (value) most = std::max(most, element_count(*value));
    }
  }
  const auto is_large_and_wide = [&](const Node& node) {
    return std::ranges::any_of(node.values, [&](const auto& value) {
      return value && 2 * element_count(*value) >= most &&
             !is_half(value->dtype);
    });
  };
  return std::ranges::none_of(graph.nodes, [&](const Node& node) {
    const bool is_in_memory =
        node.kind == NodeKind::input ||
        std::ranges::find(graph.outputs, node.name) != graph.outputs.end();
    return is_in_memory && is_large_and_wide(node);
  });
}

std::vector<TritonVariant> variants_of(const Graph& graph) {
  return triton_variants(is_of_halves(graph));
}

/// Whether the graph's sums of products have code.
bool has_contractions(const Graph& graph) {
  return !graph.symbolic_shapes.is_symbolic() ||
         std::ranges::none_of(graph.nodes, [](const Node& node) {
           return node.kind == NodeKind::call && is_product(node.target) &&
                  !has_any_size(node);
         });
}

LoweringOptions lowering_options(const TritonVariant& variant,
                                 const LoweringChoices& choices,
                                 bool free_rounding, bool contractions) {
  LoweringOptions options;
  options.choices = choices;
  options.choices.single_pass_elements = variant.row_max;
  options.mended_means = true;
  options.has_function = &has_function;
  options.contractions = contractions;
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
  LoweringOptions options = lowering_options({}, choices, false, false);
  options.depthwise = true;
  return !can_lower(graph, call, options);
}

Schedule schedule_of(const Graph& graph, const TritonVariant& variant,
                     const GpuFacts& facts, bool free_rounding,
                     const std::set<std::string>& keep = {},
                     const Schedule* hint = nullptr) {
  const bool for_sizes = graph.symbolic_shapes.is_symbolic();
  LoweringOptions options = lowering_options(
      variant, facts.choices.lowering, free_rounding, has_contractions(graph));
  options.for_sizes = for_sizes;
  options.keep = keep;
  options.eager_on_gpu = !facts.interpreted;
  Result<Program> program = lower(graph, options);
  if (!program) throw Unsupported{program.error().message};
  LoopFacts schedule_facts;
  schedule_facts.cores = facts.sms;
  schedule_facts.whole_row = variant.row_max;
  schedule_facts.on_gpu = true;
  schedule_facts.recomputes = variant.recomputing_points > 0;
  schedule_facts.rates = facts.rates;
  schedule_facts.choices = facts.choices;
  schedule_facts.for_sizes = for_sizes;
  schedule_facts.no_fuse = [&facts](const Program& of, const Stage& stage) {
    return is_contraction(of, stage, facts.choices.triton.product);
  };
  Schedule plan = schedule(std::move(*program), schedule_facts, hint);
  if (variant.jams) unroll_and_jam(plan, facts.choices.loops);
  // At another size, a bound may hold elsewhere.
  if (variant.windows && !for_sizes) find_interiors(plan);
  return plan;
}

/// How large the integers in it are that may grow: what is symbolic is no
/// smaller than the samples that code is printed at. No bounds of a type.
std::set<std::int64_t> symbolic_integers(const Schedule& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::set<std::int64_t> integers;
  for (const Nest& nest : plan.nests) {
    for (const Stage& stage : nest.stages) {
      for (const ExprId id : plan.program.arena.reachable(roots_of(stage))) {
        const Scalar& node = plan.program.arena[id];
        const std::int64_t number =
            node.integer < 0 ? -(node.integer + 1) : node.integer;
        const bool may_be_symbolic =
            node.op == ScalarOp::constant && node.dtype == DType::i64 &&
            number >= kSampleMin && number < kMost && number != INT32_MAX;
        if (may_be_symbolic) integers.insert(number);
      }
    }
  }
  return integers;
}

/// Of each variant, that graph's schedule.
using Schedules = std::function<const Schedule&(const TritonVariant&)>;

TritonModule print_module(const Graph& graph, const Schedules& hint_schedules,
                          const TritonVariant& variant, const GpuFacts& facts,
                          bool free_rounding,
                          const std::set<std::string>& keep) {
  const Schedule* hint =
      graph.symbolic_shapes.is_symbolic() ? &hint_schedules(variant) : nullptr;
  Schedule plan = schedule_of(graph, variant, facts, free_rounding, keep, hint);
  TritonModule module;
  module.free_rounding = free_rounding;
  if (graph.symbolic_shapes.is_symbolic()) {
    module.sizes = kernel_sizes(graph.symbolic_shapes.sizes.size());
    auto found = find_symbolic_loops(plan, *hint);
    if (!found) throw Unsupported{"its loops are others at another size"};
    plan.symbolic_loops = std::move(*found);
  }
  // Loops may walk more elements than any tensor has: where one is spread.
  const auto add_span = [&](std::int64_t span) {
    if (std::ranges::find(module.spans, span) == module.spans.end()) {
      module.spans.push_back(span);
    }
  };
  for (const Buffer& buffer : plan.program.buffers) {
    add_span(std::max(buffer.span, elements_of(buffer)));
  }
  for (const Nest& nest : plan.nests) {
    add_span(extent_of(nest.outer));
    for (const Stage& stage : nest.stages) add_span(extent_of(stage.inner));
  }
  if (graph.symbolic_shapes.is_symbolic()) {
    for (const std::int64_t number : symbolic_integers(plan)) add_span(number);
  }
  for (const int result : plan.spilled) {
    const Buffer& buffer = plan.program.buffers[result];
    module.scratch.push_back({buffer.name, elements_of(buffer), buffer.dtype});
  }
  for (const Nest& nest : plan.nests) {
    print_triton_nest(plan, nest, variant, facts, module);
  }
  return module;
}

/// Calls whose values the variant materializes. They depend only on whether the
/// variant recomputes: otherwise all variants materialize what the first does.
/// None if the graph is symbolic: the faster choice may depend on its size.
std::set<std::string> materialized_in(const Graph& graph,
                                      const TritonVariant& variant,
                                      const GpuFacts& facts,
                                      bool free_rounding) {
  if (graph.symbolic_shapes.is_symbolic()) return {};
  TritonVariant first = variants_of(graph).front();
  first.recomputing_points = variant.recomputing_points;
  return worth_keeping(
      graph,
      [&](const std::set<std::string>& keep) {
        return schedule_of(graph, first, facts, free_rounding, keep);
      },
      facts.rates, facts.choices.lowering);
}

/// The sources at the graph's own size. If the graph is symbolic, the source
/// for any size is what the sources at several sizes have in common.
Result<std::vector<KernelSource>> generate_at(
    const Subgraph& subgraph, const Schedules& hint_schedules,
    const GpuFacts& facts, const GenerateOptions& options) try {
  std::vector<KernelSource> sources;
  std::set<std::string> seen;
  const bool tf32 = is_tf32(subgraph.graph);
  std::map<bool, std::set<std::string>> materialized;  // by recomputes
  for (TritonVariant variant : variants_of(subgraph.graph)) {
    if (static_cast<int>(sources.size()) >= options.variants_max) break;
    variant.exact = variant.exact || !tf32;
    const bool recomputes = variant.recomputing_points > 0;
    if (!materialized.contains(recomputes)) {
      materialized[recomputes] = materialized_in(subgraph.graph, variant, facts,
                                                 options.free_rounding);
    }
    const TritonModule module =
        print_module(subgraph.graph, hint_schedules, variant, facts,
                     options.free_rounding, materialized.at(recomputes));
    if (!seen.insert(triton_source(subgraph, "", module)).second) continue;
    const std::string name = variant_name(variant, tf32);
    sources.push_back(
        {name, triton_source(subgraph, name, module), module.reasons});
  }
  return sources;
} catch (const Unsupported& reason) {
  return fail(ErrorCode::wrong_input, "no Triton code: " + reason.what);
}

}  // namespace

Decision triton_can_lower(const Graph& graph, const Node& call,
                          const CutOptions& cut) {
  const LoweringChoices& choices = cut.choices.lowering;
  const auto lowering = lowering_options({}, choices, false,
                                         !cut.for_sizes || has_any_size(call));
  Decision decision = can_lower(graph, call, lowering);
  if (!decision) return decision;
  if (cut.no_extern) return {true, "--no-extern leaves nothing to PyTorch"};
  decision = competes_with_library(graph, call, cut);
  if (decision && is_product_of_halves(graph, call, choices)) {
    return {false, "the vendor library computes products of half precision"};
  }
  return decision;
}

Result<std::vector<KernelSource>> generate_triton(
    const Subgraph& subgraph, const GpuFacts& facts,
    const GenerateOptions& options) {
  const Graph& graph = subgraph.graph;
  if (!graph.symbolic_shapes.is_symbolic()) {
    return generate_at(subgraph, {}, facts, options);
  }
  for (const TritonVariant& variant : variants_of(graph)) {
    const auto same =
        check_any_size(graph, lowering_options(variant, facts.choices.lowering,
                                               options.free_rounding,
                                               has_contractions(graph)));
    if (!same) return std::unexpected(same.error());
  }
  const auto hint = hint_graph(graph);
  if (!hint) return std::unexpected(hint.error());
  std::map<std::string, Schedule> known;  // once, whatever size is printed
  const Schedules hint_schedules =
      [&](const TritonVariant& variant) -> const Schedule& {
    const std::string name = variant_name(variant, true);
    if (!known.contains(name)) {
      known.emplace(name,
                    schedule_of(*hint, variant, facts, options.free_rounding));
    }
    return known.at(name);
  };
  auto sources = sources_for_sizes(subgraph, [&](const Subgraph& at) {
    return generate_at(at, hint_schedules, facts, options);
  });
  if (!sources) return sources;
  for (KernelSource& source : *sources) {
    source.text += triton_batches(graph.symbolic_shapes.sizes);
  }
  return sources;
}

}  // namespace weft
