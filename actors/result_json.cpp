#include "actors/result_json.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "actors/device.hpp"
#include "actors/llm/report.hpp"
#include "compiler/compose/parts_source.hpp"
#include "compiler/fusion/product_count.hpp"

namespace weft {
namespace {

using nlohmann::json;

json times_json(const Times& times) {
  if (times.runs == 0) return nullptr;
  return {{"median_us", times.median_us}, {"p10_us", times.p10_us},
          {"p90_us", times.p90_us},       {"runs", times.runs},
          {"mean_us", times.mean_us},     {"std_us", times.std_us},
          {"min_us", times.min_us},       {"max_us", times.max_us}};
}

json speedup_json(const Speedup& s) {
  if (s.ratio <= 0) return nullptr;
  return {{"ratio", s.ratio}, {"low", s.low}, {"high", s.high}};
}

json back_to_back_json(const Timing& timing) {
  if (timing.back_to_back_us.empty()) return nullptr;
  json fields = {{"calls", timing.back_to_back_calls}};
  for (const auto& [party, us] : timing.back_to_back_us)
    fields[party + "_us"] = us;
  return fields;
}

json timing_json(const Timing& timing) {
  return {{"candidate", times_json(timing.candidate)},
          {"eager", times_json(timing.eager)},
          {"compile", times_json(timing.compile)},
          {"compile_autotune", times_json(timing.compile_autotune)},
          {"over_eager", speedup_json(timing.over_eager)},
          {"over_compile", speedup_json(timing.over_compile)},
          {"over_compile_autotune", speedup_json(timing.over_compile_autotune)},
          {"compile_error", timing.compile_error},
          {"compile_autotune_error", timing.compile_autotune_error},
          {"bytes_floor", timing.bytes_floor},
          {"back_to_back", back_to_back_json(timing)},
          {"sm_mhz", timing.sm_mhz},
          {"throttled", timing.throttled}};
}

json kernelbench_json(const KernelBenchVerdict& found) {
  if (found.outcome.empty()) return nullptr;
  return {{"outcome", found.outcome},
          {"reason", found.reason},
          {"draws", found.draws},
          {"max_difference", found.max_difference},
          {"tolerance", found.tolerance},
          {"compiled", found.compiled},
          {"compiled_reason", found.compiled_reason}};
}

json verdict_json(const Verdict& verdict) {
  return {{"correct", verdict.correct},
          {"kind", verdict.kind},
          {"reason", verdict.reason},
          {"cases", verdict.cases},
          {"max_error", verdict.max_error},
          {"framework_error", verdict.framework_error},
          {"tolerance", verdict.tolerance},
          {"controls", verdict.controls},
          {"precision", verdict.precision},
          {"framework_precision", verdict.framework_precision},
          {"kernelbench", kernelbench_json(verdict.kernelbench)}};
}

json machine_json(const Report& report) {
  const Machine& machine = report.run.machine;
  const bool has_gpu = !machine.gpus.empty();
  return {{"processor", machine.name},
          {"cores", machine.cores},
          {"gpu", has_gpu ? json(machine.gpus.front().name) : json()},
          {"copy_gbps", report.machine.copy_gbps},
          {"gpu_measured", report.machine.gpu},
          {"torch", report.machine.torch},
          {"unprotected", machine.unprotected}};
}

/// The module that is near to eager where the other one is not.
json kernelbench_module_json(const Report& report) {
  const KernelBenchModule& kernelbench_module = report.kernelbench_module;
  if (!kernelbench_module.composed) return nullptr;
  return {{"file", kKernelBenchModulePath},
          {"ours", kernelbench_module.used},
          {"externs", kernelbench_module.externs},
          {"verdict", verdict_json(kernelbench_module.verdict)},
          {"timing", timing_json(kernelbench_module.timing)}};
}

json spent_json(const LlmSpent& spent) {
  return {{"calls", spent.calls},
          {"from_cache", spent.from_cache},
          {"tokens", spent.tokens},
          {"usd", static_cast<double>(spent.micro_usd) / 1e6},
          {"waited_ms", spent.waited_ms}};
}

/// What a language model was asked for one subgraph.
json llm_summary_json(const LlmSummary& summary) {
  json fields = spent_json(summary.spent);
  fields["rounds"] = summary.rounds;
  fields["ended"] = summary.note;
  return fields;
}

json llm_json(const Report& report) {
  if (report.run.options.llm.name.empty()) return nullptr;
  json fields = spent_json(llm_spent(report));
  fields["name"] = report.run.options.llm.name;
  fields["out_of_budget"] = ran_out_of_budget(report);
  return fields;
}

json subgraphs_json(const Report& report, const Plan& plan) {
  std::map<std::string, int> counts;
  for (const Placement& placement : plan.placements) {
    ++counts[placement.subgraph];
  }
  std::map<std::string, std::string> types;
  for (const Subgraph& subgraph : all_subgraphs(plan)) {
    types[subgraph.id] = subgraph.type;
  }
  json all = json::array();
  for (const SubgraphDone& done : report.subgraphs) {
    all.push_back({{"id", done.subgraph},
                   {"what", types[done.subgraph]},
                   {"count", counts[done.subgraph]},
                   {"outcome", done.outcome},
                   {"reason", done.reason},
                   {"ours", report.used.contains(done.subgraph)},
                   {"target", done.best.seed.target},
                   {"origin", done.best.seed.origin},
                   {"variant", done.best.seed.variant},
                   {"seeds", done.seeds},
                   {"correct", done.correct},
                   {"llm", llm_summary_json(done.llm)},
                   {"verdict", verdict_json(done.best.verdict)},
                   {"timing", timing_json(done.best.timing)}});
  }
  return all;
}

}  // namespace

std::string result_json(const Report& report, const Plan& plan) {
  const RunOptions& options = report.run.options;
  const ProductCount products = count_products(plan.model);
  const json result = {
      {"format", 1},
      {"problem", report.run.problem_name},
      {"summary", summary_line(report)},
      {"why_no_kernel", why_no_kernel(report)},
      {"weft", report.run.weft_version},
      {"target", options.target},
      {"precision", options.precision},
      {"rounding", options.rounding},
      {"mode", options.mode},
      {"training", plan.model.training},
      {"reads_mode", reads_mode(plan.model.parts)},
      {"random_seed", options.random_seed},
      {"accept", options.accept},
      {"budget_ms", options.budget_ms},
      {"choices", options.choices},
      {"kernelbench_module", kernelbench_module_json(report)},
      {"timed", can_time(options, report.run.machine)},
      {"machine", machine_json(report)},
      {"verdict", verdict_json(report.verdict)},
      {"timing", timing_json(report.timing)},
      {"matrix_operations", products.matrix_operations},
      {"convolution_operations", products.convolution_operations},
      {"half_operations", products.half_operations},
      {"subgraphs", subgraphs_json(report, plan)},
      {"externs", extern_counts(plan)},
      {"stand_ins", report.stand_ins},
      {"llm", llm_json(report)},
      {"notes", report.notes}};
  // A model's own texts need not be UTF-8.
  return result.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weft
