#include "tools/weft/foreign_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "messages/protection.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"

namespace weft {
namespace {

/// A number of the user's own settings, times `unit`; nullopt: not set.
Result<std::optional<std::int64_t>> own_number(Settings& settings,
                                               const std::string& name,
                                               double unit) {
  take_environment(settings, name, &process_environment);
  const auto found = settings.find(name);
  if (found == settings.end() || found->second.from_folder) {
    return std::nullopt;
  }
  const std::string text = found->second.shown();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  constexpr double most = 1e15;
  if (text.empty() || *end != '\0' || !(value >= 0 && value * unit <= most)) {
    return fail(ErrorCode::wrong_input, found->second.origin + ": " + name +
                                            " is no number that it could be");
  }
  return static_cast<std::int64_t>(value * unit);
}

/// The lower of the journal's limit (below 0: no limit) and the user's.
std::int64_t lower(std::int64_t journal, std::int64_t own) {
  return journal < 0 ? own : std::min(journal, own);
}

/// A run reads and writes its kernel library, so the journal may not name it.
void hold_library(ForeignRun& held, Settings& settings,
                  const ResumeFlags& flags) {
  std::string& library = held.start.options.known_kernels;
  const std::string journals = std::exchange(library, {});
  take_environment(settings, "run.library", &process_environment);
  const auto found = settings.find("run.library");
  if (flags.library) {
    library = std::filesystem::absolute(*flags.library).string();
  } else if (found != settings.end() && !found->second.from_folder &&
             !found->second.shown().empty()) {
    library = std::filesystem::absolute(found->second.shown()).string();
  }
  if (!journals.empty() && library.empty()) {
    held.remarks.push_back("its kernel library " + journals +
                           " is not used: name one with --library");
  }
}

Result<void> hold_models(ForeignRun& held, Settings& settings) {
  LlmOptions& llm = held.start.options.llm;
  if (llm.name.empty()) return {};
  constexpr double kMicroUsd = 1e6;
  const auto usd = own_number(settings, "run.budget_usd", kMicroUsd);
  if (!usd) return std::unexpected(usd.error());
  const auto tokens = own_number(settings, "run.budget_tokens", 1);
  if (!tokens) return std::unexpected(tokens.error());
  held.may_ask_models = usd->has_value() || tokens->has_value();
  if (!held.may_ask_models) {
    held.remarks.push_back(
        "no language model is asked: set a budget of your own for that, "
        "WEFT_RUN_BUDGET_USD or WEFT_RUN_BUDGET_TOKENS");
    return {};
  }
  if (*usd) held.spending.micro_usd = lower(llm.budget_micro_usd, **usd);
  if (*tokens) held.spending.tokens = lower(llm.budget_tokens, **tokens);
  return {};
}

/// Whether the journal's value was above the user's limit, which it gets.
bool hold(std::int64_t& value, std::int64_t most) {
  const bool is_above = value > most;
  value = std::min(value, most);
  return is_above;
}

void say_held(ForeignRun& held, const std::string& what,
              std::string_view setting) {
  held.remarks.push_back("its " + what + " is above yours, which holds: " +
                         variable_of(setting) + " raises it");
}

Result<void> hold_limits(ForeignRun& held, Settings& settings) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  constexpr double kMs = 1000;
  const RunOptions usual;
  RunOptions& options = held.start.options;
  const auto timing = own_number(settings, "run.timing_ms", 1);
  if (!timing) return std::unexpected(timing.error());
  const auto last = own_number(settings, "run.final_timing_ms", 1);
  if (!last) return std::unexpected(last.error());
  // A port cannot tell the two timings apart: the longer one holds.
  const std::int64_t timing_ms = std::max(
      timing->value_or(usual.timing_ms), last->value_or(usual.final_timing_ms));
  const bool is_first_held = hold(options.timing_ms, timing_ms);
  if (hold(options.final_timing_ms, timing_ms) || is_first_held) {
    say_held(held, "time for a timing", "run.final_timing_ms");
  }
  const struct {
    const char* what;
    const char* setting;
    double unit;
    std::int64_t usual;
    std::int64_t* value;
  } limits[] = {
      {"memory limit", "run.memory_gib", kGib, usual.memory_bytes,
       &options.memory_bytes},
      {"time limit of the capture", "run.capture_seconds", kMs,
       usual.capture_ms, &options.capture_ms},
      {"time limit of a call", "run.call_seconds", kMs, usual.call_ms,
       &options.call_ms},
  };
  for (const auto& limit : limits) {
    const auto own = own_number(settings, limit.setting, limit.unit);
    if (!own) return std::unexpected(own.error());
    if (hold(*limit.value, own->value_or(limit.usual))) {
      say_held(held, limit.what, limit.setting);
    }
  }
  const auto budget = own_number(settings, "run.budget_s", kMs);
  if (!budget) return std::unexpected(budget.error());
  // The roles hold the journal's own.
  held.budget_ms = budget->value_or(0);
  return {};
}

}  // namespace

Result<ForeignRun> limit_foreign(const RunStart& start, Settings settings,
                                 const ResumeFlags& flags) {
  const auto boxed = check_has_sandbox("a run of another user or machine");
  if (!boxed) return std::unexpected(boxed.error());
  ForeignRun held{.start = start, .spending = {}};
  held.start.untrusted_problem = true;
  held.remarks.push_back(
      "another user or machine began this run: its problem runs in a sandbox, "
      "and your limits apply (--trusted applies the journal's)");
  hold_library(held, settings, flags);
  if (const auto models = hold_models(held, settings); !models) {
    return std::unexpected(models.error());
  }
  if (const auto limits = hold_limits(held, settings); !limits) {
    return std::unexpected(limits.error());
  }
  return held;
}

}  // namespace weft
