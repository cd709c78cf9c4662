#include "compiler/cpu/generate.hpp"

#include <algorithm>
#include <set>

#include "compiler/choices/cpu_variants.hpp"
#include "compiler/compose/sized_sources.hpp"
#include "compiler/cpu/print.hpp"
#include "compiler/fusion/lowerable.hpp"
#include "compiler/loops/symbolic_loops.hpp"
#include "compiler/lowering/any_size.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

std::string shape_text(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  text += "[";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(type.shape[i]);
  }
  return text + "]";
}

std::string title_text(const Subgraph& subgraph, const std::string& variant) {
  std::string text = "// " + subgraph.type + " (" + subgraph.id +
                     "), variant " + variant + "\n//\n";
  for (const Node& node : subgraph.graph.nodes) {
    text += "//   " + node.name + " = ";
    text += node.kind == NodeKind::call ? node.target : "input";
    for (const auto& value : node.values) {
      if (value) text += " " + shape_text(*value);
    }
    text += "\n";
  }
  return text + "//\n";
}

bool writes_much(const Graph& graph, const LoopFacts& facts) {
  std::int64_t bytes = 0;
  for (const std::string& name : graph.outputs) {
    const Node* node = graph.find(name);
    if (node == nullptr || node->values.empty() || !node->values[0]) continue;
    bytes +=
        element_count(*node->values[0]) * element_bytes(node->values[0]->dtype);
  }
  return bytes > facts.choices.cpu.streamed_l2_multiple * facts.l2_bytes;
}

/// `usual`: of a symbolic graph, its schedule at the size by which loops are
/// laid out. `large`: of a graph at that.
Result<std::vector<KernelSource>> generate_at(const Subgraph& subgraph,
                                              const Schedule* hint, bool large,
                                              const LoopFacts& facts,
                                              int variants_max,
                                              const LoweringOptions& options) {
  std::vector<KernelSource> sources;
  std::set<std::string> seen;
  for (const auto& [name, variant] : cpu_variants(large, facts.vector_bytes)) {
    if (static_cast<int>(sources.size()) >= variants_max) break;
    Result<Program> program = lower(subgraph.graph, options);
    if (!program) return std::unexpected(program.error());
    Schedule plan = schedule(std::move(*program), facts, hint);
    if (hint != nullptr) {
      auto found = find_symbolic_loops(plan, *hint);
      if (!found) {
        return fail(ErrorCode::wrong_input,
                    "no code for any size: its loops are others at another");
      }
      plan.symbolic_loops = std::move(*found);
    }
    CpuVariant rounded = variant;
    rounded.free_rounding = options.free_rounding;
    const SymbolicShapes& symbolic_shapes = subgraph.graph.symbolic_shapes;
    rounded.symbols =
        symbolic_shapes.is_symbolic() ? symbolic_shapes.sizes.size() : 0;
    CpuText printed = print_cpu(plan, rounded, facts, "");
    if (!seen.insert(printed.text).second) continue;
    sources.push_back({name, title_text(subgraph, name) + printed.text,
                       std::move(printed.reasons)});
  }
  return sources;
}

}  // namespace

Decision can_lower(const Graph& graph, const Node& call) {
  return can_lower(graph, call, {.adds_in_place = true, .halves = true});
}

Result<std::vector<KernelSource>> generate_cpu(const Subgraph& subgraph,
                                               const LoopFacts& facts,
                                               int variants_max,
                                               LoweringOptions options) {
  options.adds_in_place = true;
  options.halves = true;
  options.half_functions = true;
  options.wide_moments = true;
  options.choices = facts.choices.lowering;
  options.choices.single_pass_elements =
      facts.l2_bytes / facts.choices.cpu.two_pass_l2_divisor;
  options.for_sizes = subgraph.graph.symbolic_shapes.is_symbolic();
  if (!options.for_sizes) {
    return generate_at(subgraph, nullptr, writes_much(subgraph.graph, facts),
                       facts, variants_max, options);
  }
  if (auto same = check_any_size(subgraph.graph, options); !same) {
    return std::unexpected(same.error());
  }
  const auto graph = hint_graph(subgraph.graph);
  if (!graph) return std::unexpected(graph.error());
  auto program = lower(*graph, options);
  if (!program) return std::unexpected(program.error());
  const Schedule hint = schedule(std::move(*program), facts);
  return sources_for_sizes(subgraph, [&](const Subgraph& at) {
    return generate_at(at, &hint, writes_much(*graph, facts), facts,
                       variants_max, options);
  });
}

std::vector<std::string> cpu_build_flags() {
  // Errors of libm in errno and floating-point traps are read by nobody, and
  // cost the vectors. Multiply-adds are fused within an operator; across the
  // model's own the prelude's rounded() keeps them apart. What would change
  // NaN, infinities or signed zeros (-ffast-math) stays off.
  return {"-std=c++17",
          "-O3",
          "-march=native",
          "-fopenmp",
          "-shared",
          "-fPIC",
          "-fno-math-errno",
          "-fno-trapping-math",
          "-ffp-contract=fast",
          "-fwrapv",
          "-Wno-psabi"};
}

std::int64_t bytes_floor(const Subgraph& subgraph) {
  std::int64_t bytes = 0;
  const auto add = [&](const Node& node) {
    if (node.values.empty() || !node.values[0]) return;
    const TensorType& type = *node.values[0];
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      // What is expanded is one element in memory.
      if (type.stride[i] != 0) elements *= type.shape[i];
    }
    bytes += elements * element_bytes(type.dtype);
  };
  for (const Node& node : subgraph.graph.nodes) {
    if (node.kind != NodeKind::call) add(node);
  }
  for (const std::string& name : subgraph.graph.outputs) {
    if (const Node* node = subgraph.graph.find(name)) add(*node);
  }
  return bytes;
}

}  // namespace weft
