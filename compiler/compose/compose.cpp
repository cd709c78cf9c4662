#include "compiler/compose/compose.hpp"

#include <algorithm>
#include <set>

#include "compiler/compose/forward_source.hpp"
#include "compiler/compose/problem_source.hpp"
#include "compiler/compose/sized_sources.hpp"

namespace weft {

namespace {

constexpr std::string_view kTitle =
    "# Made by weft: the problem's Model as ModelNew. Verified kernels stand "
    "in for\n# pieces of forward(); PyTorch computes the rest. "
    "What was not\n# captured goes to forward_reference(), with one warning "
    "that says why: other\n# shapes, dtypes, layouts or modes, parts or "
    "settings changed since, autocast,\n# tracers and function transforms. "
    "Gradients are forward_reference()'s.\n";

/// Each target's loader once, however many of its kernels there are.
std::string loaders(const std::map<std::string, ComposedKernel>& kernels,
                    const std::set<std::string>& used) {
  std::map<std::string_view, const Target*> by_name;
  for (const std::string& id : used) {
    const Target* target = kernels.at(id).target;
    by_name[target->name] = target;
  }
  std::string text;
  for (const auto& [name, target] : by_name) {
    // Two targets may share one.
    const std::string loader = target->loader.module_source();
    if (!text.contains(loader)) text += loader;
  }
  return text;
}

/// Of those in use, one that is for a kind of device.
const Target& device_target(
    const std::map<std::string, ComposedKernel>& kernels,
    const std::set<std::string>& used) {
  const auto found = std::ranges::find_if(used, [&](const std::string& id) {
    return kernels.at(id).target->is_for_runs;
  });
  return *kernels.at(found == used.end() ? *used.begin() : *found).target;
}

/// For the plan's own size.
std::string compose_at(const ProblemSource& problem, const Plan& plan,
                       const std::map<std::string, ComposedKernel>& kernels,
                       const std::set<std::string>& used,
                       const Target* target) {
  const ForwardSource forward =
      forward_source(plan, used, problem,
                     used.empty() ? *target : device_target(kernels, used));

  std::string text(kTitle);
  text += problem.before + "import inspect\n" +
          (used.empty() ? "import torch\n" +
                              std::string(target->loader.device_source) + "\n"
                        : loaders(kernels, used)) +
          forward.before;
  for (const Subgraph& subgraph : plan.subgraphs) {
    if (!used.contains(subgraph.id)) continue;
    const ComposedKernel& kernel = kernels.at(subgraph.id);
    text += "# " + subgraph.type + ", variant " + kernel.variant + "\n" +
            kernel.target->loader.function_source(
                subgraph.graph, "_weft_" + subgraph.id, kernel.source) +
            "\n\n";
  }
  return text + problem.model + "\n" + forward.method + forward.after +
         problem.after;
}

}  // namespace

Result<std::string> compose_source(
    std::string_view problem_source, const Plan& plan,
    const std::map<std::string, ComposedKernel>& kernels,
    const Target* target) {
  std::set<std::string> used;
  for (const Subgraph& subgraph : plan.subgraphs) {
    if (kernels.contains(subgraph.id)) used.insert(subgraph.id);
  }
  const bool has_fused_attention =
      target != nullptr && !plan.fused_attention_calls.empty();
  if (used.empty() && !has_fused_attention) return rename_model(problem_source);

  const auto problem = split_problem(problem_source);
  if (!problem) return std::unexpected(problem.error());
  return python_for_sizes(
      plan.model, [&](const Sizes& sizes) -> Result<std::string> {
        const auto at = plan_at(plan, sizes);
        if (!at) return std::unexpected(at.error());
        return compose_at(*problem, *at, kernels, used, target);
      });
}

}  // namespace weft
