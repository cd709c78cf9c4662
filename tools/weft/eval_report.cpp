#include "tools/weft/eval_report.hpp"

#include <cstdio>
#include <string>

#include "messages/formatted.hpp"
#include "messages/shown_text.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

using nlohmann::json;

void line(const char* what, const std::string& value) {
  std::printf("  %-10s %s\n", what, terminal_line(value).c_str());
}

std::string milliseconds(const json& times) {
  return formatted(
      "%.3f ms (%.3f to %.3f)", times.value("median_us", 0.0) / 1e3,
      times.value("p10_us", 0.0) / 1e3, times.value("p90_us", 0.0) / 1e3);
}

std::string speedup(const json& over) {
  return formatted("%.2f (%.2f to %.2f)", over.value("ratio", 0.0),
                   over.value("low", 0.0), over.value("high", 0.0));
}

/// "zeros rejected, stale NOT rejected".
std::string controls(const json& verdict) {
  std::string text;
  for (const auto& [name, rejected] : verdict["controls"].items()) {
    if (!rejected.is_boolean()) continue;
    text += (text.empty() ? "" : ", ") + name +
            (rejected.get<bool>() ? " rejected" : " NOT rejected");
  }
  return text.empty() ? "none applies" : text;
}

/// "aten.mm.default x2, …".
std::string operators(const json& called) {
  std::string text;
  for (const auto& [name, count] : called.items()) {
    text += (text.empty() ? "" : ", ") + name;
    if (count.is_number_integer() && count.get<std::int64_t>() > 1) {
      text += " x" + std::to_string(count.get<std::int64_t>());
    }
  }
  return text.empty() ? "none" : text;
}

void show_timing(const json& timing) {
  if (!timing.contains("candidate") || !timing["candidate"].is_object()) return;
  line("time", milliseconds(timing["candidate"]));
  if (timing["eager"].is_object()) {
    line("eager", milliseconds(timing["eager"]) + ", speedup " +
                      speedup(timing["over_eager"]));
  }
  if (timing["compile"].is_object()) {
    line("compile", milliseconds(timing["compile"]) + ", speedup " +
                        speedup(timing["over_compile"]));
  }
  if (const json row = timing.value("back_to_back", json()); row.is_object()) {
    std::string parts;
    for (const auto& [party, us] : row["us"].items()) {
      parts += (parts.empty() ? "" : ", ") + party +
               formatted(" %.3f ms", us.get<double>() / 1000);
    }
    line("in a row",
         std::to_string(row.value("calls", 0)) + " calls, each: " + parts);
  } else if (const auto why = timing.value("not_back_to_back", "");
             !why.empty()) {
    line("in a row", "not timed: " + why);
  }
  const std::string error = timing.value("compile_error", "");
  if (!error.empty()) line("compile", "failed: " + error.substr(0, 200));
}

/// "y[3, 4]: expected 5, got 2, error 0.6": the first that are wrong.
void show_mismatches(const json& verdict) {
  for (const json& entry : verdict.value("mismatches", json::array())) {
    const std::string error = entry.value("error", "");
    line("element", entry.value("output", "") + entry["index"].dump() +
                        ": expected " + entry.value("expected", "") + ", got " +
                        entry.value("got", "") +
                        (error.empty() ? "" : ", error " + error));
  }
}

/// By KernelBench's own rule.
void show_kernelbench(const json& found) {
  const auto word = [](const std::string& outcome, const std::string& why) {
    const std::string text =
        outcome == "outside" ? "outside the tolerance" : outcome;
    return why.empty() ? text : text + ": " + why;
  };
  const std::string outcome = found.value("outcome", "");
  if (outcome.empty()) return;
  line("KernelBench",
       word(outcome, found.value("reason", "")) +
           formatted(" (KernelBench's rule, %d draws, %.0e)",
                     found.value("draws", 0), found.value("tolerance", 0.0)));
  const std::string compiled = found.value("compiled", "");
  if (compiled.empty()) return;
  line("", "torch.compile's: " +
               word(compiled, found.value("compiled_reason", "")));
}

void show(const std::string& name, const json& evaluation) {
  const json& verdict = evaluation.at("verdict");
  const std::string kind = verdict.value("kind", "");
  if (!evaluation.value("accepted", false)) {
    std::printf("%s: rejected (%s): %s\n", name.c_str(),
                terminal_line(kind).c_str(),
                terminal_line(verdict.value("reason", "")).c_str());
  } else if (kind == "not_discriminating") {
    std::printf(
        "%s: accepted, but the problem cannot tell a kernel from an "
        "imposter\n",
        name.c_str());
  } else {
    std::printf("%s: accepted\n", name.c_str());
  }
  line("checked",
       formatted("%d cases, error %.2e, allowed %.2e, PyTorch's %.2e",
                 verdict.value("cases", 0), verdict.value("max_error", 0.0),
                 verdict.value("tolerance", 0.0),
                 verdict.value("framework_error", 0.0)));
  show_mismatches(verdict);
  if (evaluation.value("accepted", false)) line("controls", controls(verdict));
  line("random seed",
       std::to_string(evaluation.value("random_seed", std::uint64_t{0})));
  line("device", evaluation.value("device", "") + ", precision " +
                     evaluation.value("precision", ""));
  const std::string shown = verdict.value("precision", "");
  if (!shown.empty()) {
    line("products", "as exact as " + shown + ", PyTorch's as " +
                         verdict.value("framework_precision", ""));
  }
  if (verdict.contains("kernelbench") && verdict["kernelbench"].is_object()) {
    show_kernelbench(verdict["kernelbench"]);
  }
  if (evaluation["timing"].is_object()) show_timing(evaluation["timing"]);
  const std::string untimed = evaluation.value("untimed", "");
  if (!untimed.empty()) line("time", "none taken: " + untimed);
  if (evaluation["operators"].is_object()) {
    line("operators", "of PyTorch, by the candidate's own account: " +
                          operators(evaluation["operators"]));
  }
  if (evaluation.value("sandbox", "") == "none") {
    line("sandbox", "none: the candidate ran with all your rights");
  }
  const std::string remark = evaluation.value("remark", "");
  if (!remark.empty()) line("remark", remark);
}

}  // namespace

void show_evaluation(const CommonFlags& common,
                     const std::filesystem::path& reference,
                     const std::filesystem::path& candidate,
                     const json& evaluation) {
  const bool accepted = evaluation.value("accepted", false);
  if (common.json) {
    json fields = evaluation;
    fields["reference"] = reference.string();
    fields["candidate"] = candidate.string();
    print_line(fields);
  } else if (!common.quiet || !accepted) {
    show(terminal_line(candidate.string()), evaluation);
  }
  std::fflush(stdout);
}

}  // namespace weft
