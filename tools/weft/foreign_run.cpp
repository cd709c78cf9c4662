#include "tools/weft/foreign_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "messages/protection.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"

namespace weft {
namespace {

/// A number of the user's own settings, times `unit`; nullopt: it is not set.
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

/// The lower of a journal's limit (below `none`: it has none) and the user's.
std::int64_t lower(std::int64_t journal, std::int64_t none, std::int64_t own) {
  return journal <= none ? own : std::min(journal, own);
}

/// Its library is another's file, which a run reads and writes.
Result<void> hold_library(ForeignRun& held, Settings& settings,
                          const ResumeFlags& flags) {
  const std::string journals = held.start.options.known_kernels;
  std::string& library = held.start.options.known_kernels;
  library.clear();
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
  return {};
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
  if (*usd) held.spending.micro_usd = lower(llm.budget_micro_usd, -1, **usd);
  if (*tokens) held.spending.tokens = lower(llm.budget_tokens, -1, **tokens);
  return {};
}

Result<void> hold_limits(ForeignRun& held, Settings& settings) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  constexpr double kMs = 1000;
  RunOptions& options = held.start.options;
  const auto memory = own_number(settings, "run.memory_gib", kGib);
  if (!memory) return std::unexpected(memory.error());
  const std::int64_t most = memory->value_or(RunOptions{}.memory_bytes);
  if (options.memory_bytes > most) {
    held.remarks.push_back("its memory limit is above yours, which holds: "
                           "WEFT_RUN_MEMORY_GIB raises it");
    options.memory_bytes = most;
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
  const auto boxed = check_has_sandbox("a run that was not begun here");
  if (!boxed) return std::unexpected(boxed.error());
  ForeignRun held{.start = start, .spending = {}};
  held.start.description = kUntrustedProblem;  // for ports, which look no further
  held.remarks.push_back(
      "this run was not begun here by you: its problem runs in a sandbox, and "
      "your limits hold (--trusted takes all as its journal says)");
  for (const auto& done : {hold_library(held, settings, flags),
                           hold_models(held, settings),
                           hold_limits(held, settings)}) {
    if (!done) return std::unexpected(done.error());
  }
  return held;
}

}  // namespace weft
