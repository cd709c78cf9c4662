#include "actors/report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/llm/report.hpp"
#include "actors/number_text.hpp"
#include "actors/outcome.hpp"
#include "compiler/choices/choices.hpp"
#include "compiler/compose/parts_source.hpp"
#include "compiler/loops/scalar.hpp"
#include "messages/csv_cell.hpp"
#include "messages/protection.hpp"
#include "messages/shown_text.hpp"

namespace weft {
namespace {

std::string milliseconds(const Times& times) {
  if (times.runs == 0) return "–";
  return number(times.median_us / 1000, "%.3f") + " (" +
         number(times.p10_us / 1000, "%.3f") + "–" +
         number(times.p90_us / 1000, "%.3f") + ")";
}

/// "2.31× (2.25–2.40) over eager", or without a name. The interval decides
/// whether there is a difference.
std::string speedup(const Speedup& s, const std::string& over = "") {
  if (s.ratio <= 0) return "–";
  std::string text = number(s.ratio, "%.2f") + "× (" + number(s.low, "%.2f") +
                     "–" + number(s.high, "%.2f") + ")";
  if (!over.empty()) text += " over " + over;
  if (s.low <= 1 && s.high >= 1) text += ", no difference";
  return text;
}

/// Of the same code there is no difference: two processes' times differ.
std::string model_speedup(const Report& report) {
  const Speedup& over = report.timing.over_eager;
  const bool is_another = !report.used.empty() || report.stand_ins > 0;
  if (is_another || over.ratio <= 0) return speedup(over);
  return number(over.ratio, "%.2f") + "×, the same code: no difference";
}

/// What a copy reaches on the device that kernels are timed on.
double copy_gbps(const ProbeReply& machine) {
  const auto on_gpu = machine.gpu.find("copy_gbps");
  return on_gpu == machine.gpu.end() ? machine.copy_gbps : on_gpu->second;
}

/// Bytes that must move over the time taken, over what a copy reaches here.
double bandwidth_share(const Timing& timing, const ProbeReply& machine) {
  if (timing.candidate.runs == 0 || timing.candidate.median_us <= 0) return 0;
  if (timing.bytes_floor == 0 || copy_gbps(machine) <= 0) return 0;
  const double gbps = static_cast<double>(timing.bytes_floor) / 1e3 /
                      timing.candidate.median_us;
  return gbps / copy_gbps(machine);
}

std::string percent(double share) {
  return share > 0 ? number(100 * share, "%.0f %%") : "–";
}

std::map<std::string, int> placement_counts(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const Placement& placement : plan.placements) {
    ++counts[placement.subgraph];
  }
  return counts;
}

std::map<std::string, std::string> types_by_id(const Plan& plan) {
  std::map<std::string, std::string> types;
  for (const Subgraph& subgraph : all_subgraphs(plan)) {
    types[subgraph.id] = subgraph.type;
  }
  return types;
}

std::string verdict_word(const Verdict& verdict) {
  if (verdict.kind.empty()) return "not checked";
  return verdict.kind == "not_discriminating" ? "correct, not discriminating"
                                              : verdict.kind;
}

/// The policy holds for PyTorch and for generated kernels alike.
std::string precision_words(const std::string& precision) {
  if (precision == "strict") return "strict, no TF32 anywhere";
  if (precision == "tf32") return "tf32, in products and convolutions";
  return "PyTorch's own flags";
}

std::string machine_lines(const Report& report) {
  const Machine& machine = report.run.machine;
  std::string text = "* Machine: " + markdown_line(machine.name) + ", " +
                     std::to_string(machine.cores) + " cores";
  for (const Gpu& gpu : machine.gpus) {
    text += "; " + markdown_line(gpu.name) + " (" + markdown_line(gpu.arch) +
            ", " + std::to_string(gpu.sms) + " multiprocessors)";
  }
  if (copy_gbps(report.machine) > 0) {
    text += ", a copy moves " + number(copy_gbps(report.machine), "%.1f") +
            " GB/s (read and written)";
  }
  if (has_class(report.run)) {
    text += "\n* Device class of all verdicts and timings: " +
            markdown_line(class_name(report.run.device_class));
    if (!head_can(report.run, capability::judge)) text += " (on nodes)";
  }
  text += "\n* weft " + markdown_line(report.run.weft_version);
  if (!report.machine.torch.empty()) {
    text += ", PyTorch " + markdown_line(report.machine.torch);
  }
  text += ", target " + markdown_line(report.run.options.target) + ", seed " +
          std::to_string(report.run.options.random_seed) + "\n";
  text +=
      "* Precision: " + precision_words(report.run.options.precision) + "\n";
  if (report.run.options.rounding == "free") {
    text += "* Rounding: free, operators may be fused into one rounding\n";
  }
  for (const auto& [name, value] : report.run.options.choices) {
    text += "* Choice overridden: " + markdown_line(name) + " = " +
            choice_text(value) + "\n";
  }
  if (!can_time(report.run.options, machine)) {
    text += std::string("* Speed: ") + kNotTimed +
            "; the kernels were interpreted\n";
  }
  if (!machine.unprotected.empty()) {
    text += "* Protections that this machine does not give the sandbox:";
    for (const std::string& layer : machine.unprotected) {
      text += " " + markdown_line(layer);
    }
    text += "\n";
  }
  return text;
}

/// In which mode the model was captured, and why.
std::string mode_line(const Report& report, const Plan& plan) {
  const std::string& asked = report.run.options.mode;
  const std::string line =
      std::string("* Mode: ") + (plan.model.training ? "train" : "eval") +
      (asked == "as-is" ? ", as its constructor leaves it" : ", as asked");
  return line + (reads_mode(plan.model.parts)
                     ? ": in it ModelNew takes the kernels\n"
                     : "; nothing reads it: the kernels are for both\n");
}

/// "Clocks after their calls: candidate 1980 MHz, …"; empty where not known.
std::string clock_words(const Timing& timing) {
  std::string text;
  for (const auto& [party, mhz] : timing.sm_mhz) {
    text += (text.empty() ? "\nClocks after their calls: " : ", ") + party +
            " " + std::to_string(mhz) + " MHz";
  }
  for (const std::string& why : timing.throttled) {
    text += (&why == &timing.throttled.front() ? "; lowered by: " : ", ") + why;
  }
  return text.empty() ? text : text + "\n";
}

std::string kernelbench_word(const std::string& outcome) {
  if (outcome == kernelbench_outcome::within) return "within";
  return outcome == kernelbench_outcome::outside ? "outside" : outcome;
}

/// "* KernelBench's tolerance (5 draws, 1e-04): within; …"
std::string kernelbench_line(const KernelBenchVerdict& found) {
  if (found.outcome.empty()) return "";
  std::string text =
      "* KernelBench's tolerance (" + counted(found.draws, "draw") + ", " +
      number(found.tolerance, "%.0e") + "): " + kernelbench_word(found.outcome);
  if (!found.reason.empty()) text += ": " + markdown_line(found.reason);
  if (!found.compiled.empty()) {
    text += "; torch.compile's module: " + kernelbench_word(found.compiled);
    if (!found.compiled_reason.empty() && found.compiled_reason != found.reason)
      text += ": " + markdown_line(found.compiled_reason);
  }
  return text + "\n";
}

/// "* Precision of products: float32 (PyTorch's float32)".
std::string products_line(const Verdict& verdict) {
  if (verdict.precision.empty()) return "";
  return "* Precision as the errors show it: " + verdict.precision +
         " (PyTorch's " + verdict.framework_precision + ")\n";
}

/// ", tf32 (float32)": only where it is not float32 on both sides.
std::string shown_precision(const Verdict& verdict) {
  const std::string& own = verdict.precision;
  const std::string& other = verdict.framework_precision;
  if (own.empty() || (own == "float32" && other == own)) return "";
  return ", " + own + " (" + other + ")";
}

std::string times_row(const std::string& name, const Times& times,
                      const Timing& timing, const std::string& back_to_back,
                      const std::string& over) {
  std::string text = "| " + name + " | " + milliseconds(times) + " |";
  if (!timing.back_to_back_us.empty()) {
    const auto found = timing.back_to_back_us.find(back_to_back);
    text += found == timing.back_to_back_us.end()
                ? " |"
                : " " + number(found->second / 1000, "%.3f") + " |";
  }
  return text + " " + over + " |\n";
}

std::string times_table(const std::string& name, const Timing& timing,
                        const std::string& over_eager) {
  const bool has_rows = !timing.back_to_back_us.empty();
  std::string text = "\n| | ms, median (p10–p90) |";
  if (has_rows) {
    text += " " + std::to_string(timing.back_to_back_calls) +
            " calls in a row, each |";
  }
  text += " speedup of " + name + " |\n|---|---|---|";
  text += has_rows ? "---|\n" : "\n";
  text += times_row(name, timing.candidate, timing, "candidate", "");
  text += times_row("eager", timing.eager, timing, "eager", over_eager);
  text += times_row("torch.compile", timing.compile, timing, "compile",
                    speedup(timing.over_compile));
  if (timing.compile_autotune.runs > 0) {
    text +=
        times_row("its max-autotune", timing.compile_autotune, timing,
                  "compile_autotune", speedup(timing.over_compile_autotune));
  }
  if (has_rows) text += "\nSpeedups are the lower ones of both ways.\n";
  return text;
}

/// The module that KernelBench's evaluator accepts where it is another one.
std::string kernelbench_section(const Report& report) {
  if (!report.kernelbench_module.composed) return "";
  const KernelBenchModule& kernelbench_module = report.kernelbench_module;
  std::string text = "## The module within KernelBench's tolerance\n\nIn `" +
                     std::string(kKernelBenchModulePath) +
                     "`. Generated kernels: ";
  std::string ours;
  for (const std::string& id : kernelbench_module.used) {
    ours += (ours.empty() ? "" : ", ") + id;
  }
  text += ours.empty() ? "none" : ours;
  std::string externs;
  for (const auto& [name, count] : kernelbench_module.externs) {
    externs +=
        (externs.empty() ? "" : ", ") + name + " × " + std::to_string(count);
  }
  if (kernelbench_module.used.empty() && kernelbench_module.stand_ins == 0) {
    externs = "all, in Model's own forward";
  }
  text += ". PyTorch's operators: " + (externs.empty() ? "none" : externs) +
          ".\n\n";
  text += kernelbench_line(report.kernelbench_module.verdict.kernelbench);
  return text +
         times_table("it", report.kernelbench_module.timing,
                     speedup(report.kernelbench_module.timing.over_eager)) +
         "\n";
}

std::string whole_section(const Report& report) {
  const Verdict& verdict = report.verdict;
  const Timing& timing = report.timing;
  std::string text = "## The whole model\n\n";
  text += "* Verdict: " + markdown_line(verdict_word(verdict));
  if (!verdict.reason.empty()) text += ": " + markdown_line(verdict.reason);
  text += "\n* Error against float64: " + number(verdict.max_error, "%.3g") +
          " (PyTorch's own " + number(verdict.framework_error, "%.3g") +
          ", tolerance " + number(verdict.tolerance, "%.3g") + "), " +
          std::to_string(verdict.cases) + " input sets\n";
  text += products_line(verdict) + kernelbench_line(verdict.kernelbench);
  text += times_table("ModelNew", timing, model_speedup(report));
  for (const std::string& error :
       {timing.compile_error, timing.compile_autotune_error}) {
    if (!error.empty())
      text += "\ntorch.compile failed: " + markdown_line(error) + "\n";
  }
  return text + clock_words(timing) + "\n";
}

std::string kernel_word(const Report& report, const SubgraphDone& done) {
  return report.used.contains(done.subgraph) ? "ours" : "framework";
}

/// For people; names kernels of the second module, too.
std::string kernel_words(const Report& report, const SubgraphDone& done) {
  const bool passes_kernelbench =
      report.kernelbench_module.composed &&
      report.kernelbench_module.used.contains(done.subgraph) &&
      !report.used.contains(done.subgraph);
  if (passes_kernelbench) return "generated, within KernelBench's tolerance";
  return report.used.contains(done.subgraph) ? "generated" : "PyTorch";
}

/// With where it is from, unless that is the compiler.
std::string variant_words(const Seed& seed) {
  const bool is_own = seed.origin.empty() || seed.origin == "compiler";
  return is_own ? seed.variant : seed.variant + " (" + seed.origin + ")";
}

std::string subgraph_section(const Report& report, const Plan& plan) {
  auto counts = placement_counts(plan);
  auto types = types_by_id(plan);
  std::string text =
      "## Subgraphs\n\n| id | what | × | verdict | kernel | error (PyTorch's) "
      "| "
      "kernel ms (p10–p90) | eager ms | compile ms | over eager | over compile "
      "| "
      "bandwidth | variant |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const SubgraphDone& done : report.subgraphs) {
    const Timing& timing = done.best.timing;
    text += "| " + markdown_line(done.subgraph) + " | " +
            markdown_line(types[done.subgraph]) + " | " +
            std::to_string(counts[done.subgraph]) + " | " +
            markdown_line(done.outcome) + " | " + kernel_words(report, done) +
            " | " + number(done.best.verdict.max_error, "%.2g") + " (" +
            number(done.best.verdict.framework_error, "%.2g") + ")" +
            shown_precision(done.best.verdict) + " | " +
            milliseconds(timing.candidate) + " | " +
            milliseconds(timing.eager) + " | " + milliseconds(timing.compile) +
            " | " + speedup(timing.over_eager) + " | " +
            speedup(timing.over_compile) + " | " +
            percent(bandwidth_share(timing, report.machine)) + " | " +
            markdown_line(variant_words(done.best.seed)) + " |\n";
  }
  text += "\n";
  for (const SubgraphDone& done : report.subgraphs) {
    if (done.reason.empty()) continue;
    text += "* " + markdown_line(done.subgraph) + ": " +
            markdown_line(done.reason) + "\n";
  }
  return text + "\n";
}

std::string extern_section(const Report& report, const Plan& plan) {
  const auto externs = extern_counts(plan);
  std::string text = "## Operators that PyTorch runs\n\n";
  if (externs.empty()) return text + "None.\n";
  if (report.run.options.no_extern) {
    text += "For these there is no code, so --no-extern cannot hold.\n\n";
  }
  for (const auto& [name, count] : externs) {
    text += "* " + markdown_line(name) + " × " + std::to_string(count) + "\n";
  }
  if (report.stand_ins == 0) return text;
  text +=
      "\nOf these stand in for what the model writes out, which ModelNew "
      "does not run:\n\n";
  for (const std::string& name : plan.fused_attention_calls) {
    const Node* call = plan.model.find(name);
    if (call == nullptr) continue;
    text += "* " + markdown_line(call->target) + " for the attention" +
            (call->source.empty()
                 ? ""
                 : " that ends at " + markdown_line(call->source)) +
            "\n";
  }
  return text;
}

/// Columns behind what was measured: where it is from, and what it took.
constexpr std::size_t kLlmColumns = 9;

std::string csv_times(const Times& times) {
  if (times.runs == 0) return ",,";
  return number(times.median_us, "%.3f") + "," + number(times.p10_us, "%.3f") +
         "," + number(times.p90_us, "%.3f");
}

std::string csv_speedup(const Speedup& s) {
  if (s.ratio <= 0) return ",,";
  return number(s.ratio, "%.4f") + "," + number(s.low, "%.4f") + "," +
         number(s.high, "%.4f");
}

std::string csv_measured(const Verdict& verdict, const Timing& timing,
                         const ProbeReply& machine) {
  return number(verdict.max_error, "%.6g") + "," +
         number(verdict.framework_error, "%.6g") + "," +
         csv_times(timing.candidate) + "," + csv_times(timing.eager) + "," +
         csv_times(timing.compile) + "," + csv_speedup(timing.over_eager) +
         "," + csv_speedup(timing.over_compile) + "," +
         std::to_string(timing.bytes_floor) + "," +
         number(bandwidth_share(timing, machine), "%.4f") + "," +
         csv_cell(verdict.precision) + "," +
         csv_cell(verdict.framework_precision) + "," +
         csv_cell(verdict.kernelbench.outcome) + "," +
         csv_cell(verdict.kernelbench.compiled);
}

/// "; within KernelBench's tolerance"; empty: it was not checked.
std::string kernelbench_words(const Report& report) {
  const std::string& outcome = report.verdict.kernelbench.outcome;
  if (outcome.empty()) return "";
  if (outcome == kernelbench_outcome::within)
    return "; within KernelBench's tolerance";
  if (outcome != kernelbench_outcome::outside)
    return "; KernelBench's tolerance not checked";
  if (!report.kernelbench_module.composed)
    return "; outside KernelBench's tolerance";
  std::string text =
      "; outside KernelBench's tolerance, another module is within";
  const Timing& timing = report.kernelbench_module.timing;
  if (timing.over_eager.ratio > 0) {
    text += ": " + speedup(timing.over_eager, "eager");
  }
  if (timing.over_compile.ratio > 0) {
    text += ", " + speedup(timing.over_compile, "torch.compile");
  }
  return text;
}

/// One line for a summary: whole sentences, at least one. report.md has all.
std::string first_sentences(const std::string& reason) {
  constexpr std::size_t kLengthMax = 160;
  const std::string line = reason.substr(0, reason.find('\n'));
  if (line.size() <= kLengthMax) return line;
  std::size_t end = std::string::npos;
  for (auto at = line.find(". "); at != std::string::npos;
       at = line.find(". ", at + 1)) {
    if (end != std::string::npos && at >= kLengthMax) break;
    end = at + 1;
  }
  return end == std::string::npos ? line : line.substr(0, end) + " …";
}

std::string verified_line(const Report& report) {
  const bool timed = can_time(report.run.options, report.run.machine);
  if (const std::string why = why_no_kernel(report); !why.empty()) {
    return "verified, but " + why + ": ModelNew keeps PyTorch's forward";
  }
  std::string text = "verified: generated kernels for " +
                     std::to_string(report.used.size()) + " of " +
                     std::to_string(report.subgraphs.size()) +
                     " distinct subgraphs, ";
  if (report.stand_ins > 0) {
    text += std::to_string(report.stand_ins) +
            " written-out attention replaced by PyTorch's call, ";
  }
  if (!timed) return text + kNotTimed;
  if (report.timing.over_eager.ratio <= 0) return text + "not timed";
  text += speedup(report.timing.over_eager, "eager");
  if (report.timing.over_compile.ratio > 0) {
    text += ", " + speedup(report.timing.over_compile, "torch.compile");
  }
  return text;
}

}  // namespace

/// Nobody was slower who never ran.
std::string why_no_kernel(const Report& report) {
  if (!report.used.empty() || report.stand_ins > 0) return "";
  if (!report.rejected.empty()) {
    return "generated kernels were refused (" +
           first_sentences(report.rejected) + ")";
  }
  if (!can_time(report.run.options, report.run.machine)) {
    return "no generated kernel is in the module";
  }
  if (report.subgraphs.empty())
    return "all operators are calls of PyTorch's libraries";
  const auto tried = [](const SubgraphDone& done) { return done.seeds > 0; };
  const auto correct = [](const SubgraphDone& done) {
    return done.correct > 0;
  };
  const auto late = [](const SubgraphDone& done) {
    return done.reason.contains(kSearchTimeOver);
  };
  const bool none_is_right = std::ranges::none_of(report.subgraphs, correct);
  if (none_is_right && std::ranges::any_of(report.subgraphs, late)) {
    return "there was no time to find a kernel";
  }
  if (std::ranges::none_of(report.subgraphs, tried)) {
    return "no kernel was tried";
  }
  // A location that went, or an oracle that died, is no verdict on a kernel.
  const auto failed = [](const SubgraphDone& done) {
    return done.outcome == "failed";
  };
  if (std::ranges::all_of(report.subgraphs, failed)) {
    return "no kernel could be judged";
  }
  if (none_is_right) return "no generated kernel was correct";
  return "no generated kernel is faster here";
}

std::string summary_line(const Report& report) {
  const std::string box =
      has_no_sandbox(report.run.machine) ? "; without a sandbox" : "";
  if (report.verdict.correct) {
    return verified_line(report) + kernelbench_words(report) + box;
  }
  return "not verified: " +
         (report.verdict.reason.empty()
              ? std::string("the composition was not checked")
              : report.verdict.reason) +
         box;
}

std::string report_markdown(const Report& report, const Plan& plan) {
  std::string text = "# " + markdown_line(report.run.problem_name) + "\n\n" +
                     markdown_line(summary_line(report)) + "\n\n" +
                     machine_lines(report) + mode_line(report, plan) + "\n" +
                     whole_section(report);
  for (const std::string& note : report.notes)
    text += "* " + markdown_line(note) + "\n";
  if (!report.notes.empty()) text += "\n";
  text += kernelbench_section(report);
  text += subgraph_section(report, plan);
  return text + extern_section(report, plan) + llm_section(report);
}

std::string results_csv(const Report& report, const Plan& plan) {
  auto counts = placement_counts(plan);
  auto types = types_by_id(plan);
  std::string text =
      "id,what,count,verdict,kernel,variant,max_error,framework_error,"
      "ours_median_us,ours_p10_us,ours_p90_us,eager_median_us,eager_p10_us,"
      "eager_p90_us,compile_median_us,compile_p10_us,compile_p90_us,"
      "over_eager,over_eager_low,over_eager_high,over_compile,"
      "over_compile_low,over_compile_high,bytes_floor,bandwidth_share,"
      "precision,framework_precision,kernelbench,compile_kernelbench,"
      "origin,seeds,right,llm_rounds,llm_calls,llm_cached_calls,llm_tokens,"
      "llm_usd,llm_waited_ms\n";
  int seeds = 0;
  int correct = 0;
  int rounds = 0;
  for (const SubgraphDone& done : report.subgraphs) {
    text += csv_cell(done.subgraph) + "," + csv_cell(types[done.subgraph]) +
            "," + std::to_string(counts[done.subgraph]) + "," +
            csv_cell(done.outcome) + "," + kernel_word(report, done) + "," +
            csv_cell(done.best.seed.variant) + "," +
            csv_measured(done.best.verdict, done.best.timing, report.machine) +
            "," + csv_cell(done.best.seed.origin) + "," +
            std::to_string(done.seeds) + "," + std::to_string(done.correct) +
            "," + csv_llm(done.llm.rounds, done.llm.spent) + "\n";
    seeds += done.seeds;
    correct += done.correct;
    rounds += done.llm.rounds;
  }
  text += "model," + csv_cell(report.run.problem_name) + ",1," +
          csv_cell(verdict_word(report.verdict)) + ",composed,," +
          csv_measured(report.verdict, report.timing, report.machine) + ",," +
          std::to_string(seeds) + "," + std::to_string(correct) + "," +
          csv_llm(rounds, llm_spent(report)) + "\n";
  if (report.kernelbench_module.composed) {
    text += "kernelbench," + csv_cell(report.run.problem_name) + ",1," +
            csv_cell(verdict_word(report.kernelbench_module.verdict)) +
            ",composed,," +
            csv_measured(report.kernelbench_module.verdict,
                         report.kernelbench_module.timing, report.machine) +
            std::string(kLlmColumns, ',') + "\n";
  }
  for (const auto& [name, count] : extern_counts(plan)) {
    text += "extern," + csv_cell(name) + "," + std::to_string(count) +
            ",,framework" + std::string(24 + kLlmColumns, ',') + "\n";
  }
  return text;
}

}  // namespace weft
