#include "tools/weft/run_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "actors/llm/search.hpp"
#include "actors/roster.hpp"
#include "compiler/choices/choices.hpp"
#include "compiler/graph/symbolic_shapes.hpp"
#include "compiler/targets.hpp"
#include "messages/earlier_names.hpp"
#include "runtime/store/library.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {
namespace {

using Options = std::vector<CLI::Option*>;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

/// A position or a dimension.
std::optional<int> small_number(std::string_view text) {
  int value = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole =
      error == std::errc{} && end == text.data() + text.size();
  return is_whole && value >= 0 && value < 64 ? std::optional(value)
                                              : std::nullopt;
}

std::string check_seed_source(const std::string& name) {
  if (is_role(address::seeds(name))) return "";
  return "there is no source of seeds called '" + name +
         "' (try: library,compiler,inductor,llm)";
}

/// Today's word for a rule; an earlier one is reported once.
std::string rule_now(const std::string& given) {
  const std::string now(earlier::value_now("accept", given));
  if (now != given) {
    say_once({"--accept " + given + " is called --accept " + now + " now"});
  }
  return now;
}

/// "1", or "2:1".
std::optional<SymbolicDim> parse_dim(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto input = colon == text.npos ? std::optional(-1)
                                        : small_number(text.substr(0, colon));
  const auto dim = small_number(text.substr(colon + 1));  // npos + 1 is 0
  if (!input || !dim) return std::nullopt;
  return SymbolicDim{*input, *dim};
}

std::string check_dim(const std::string& text) {
  if (parse_dim(text)) return "";
  return "'" + text + "' is no dimension: 1, or 2:1 for the third input's";
}

/// Those of --dynamic-dim, after that of --dynamic-batch.
void set_symbolic_dims(RunOptions& options,
                       const std::vector<std::string>& dims) {
  std::vector<SymbolicDim> symbols;
  if (options.dynamic_batch) symbols.emplace_back();
  for (const std::string& text : dims) {
    const SymbolicDim symbol = parse_dim(text).value();
    if (std::ranges::find(symbols, symbol) != symbols.end()) {
      throw CLI::ValidationError("--dynamic-dim",
                                 size_flag(symbol) +
                                     " is there twice: each dimension "
                                     "is a symbol once");
    }
    symbols.push_back(symbol);
  }
  if (symbols.size() > kSymbolsMax) {
    throw CLI::ValidationError("--dynamic-dim",
                               "two sizes can be symbols, and these are " +
                                   std::to_string(symbols.size()) +
                                   ": leave out those that stay as they are");
  }
  options.dynamic_batch = true;
  options.dynamic_input = symbols.front().input;
  options.dynamic_dim = symbols.front().dim;
  options.dynamic_more.assign(symbols.begin() + 1, symbols.end());
}

/// What is built, and by which rules.
Options add_subject(CLI::App& app, RunOptions& options) {
  CLI::Option* device = app.add_option("--device", options.device, "Which GPU")
                            ->check(CLI::Range(0, 63))
                            ->capture_default_str();
  return {
      app.add_option("--target", options.target,
                     "Target of the kernels (auto: the GPU if there is one)")
          ->check(CLI::IsMember(target_names()))
          ->capture_default_str(),
      device,
      app.add_option("--devices", options.devices,
                     "Several GPUs, with commas: numbers, UUIDs, or all")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->excludes(device),
      app.add_option("--precision", options.precision,
                     "Precision of products, in PyTorch and in kernels")
          ->check(CLI::IsMember({"framework", "strict", "tf32"}))
          ->capture_default_str(),
      app.add_option(
             "--accept", options.accept,
             "Rule that the module must meet: weft's, KernelBench's, or a "
             "module for each (run: weft; bench: both)")
          ->transform(rule_now)
          ->check(CLI::IsMember({"weft", "kernelbench", "both"})),
      app.add_option("--rounding", options.rounding,
                     "Between operators: as eager, or free to fuse them")
          ->check(CLI::IsMember({"eager", "free"}))
          ->capture_default_str(),
      app.add_option("--mode", options.mode,
                     "The model's mode that kernels are for (as-is: its "
                     "constructor's; both: a run for each)")
          ->check(CLI::IsMember({"as-is", "eval", "train", "both"}))
          ->capture_default_str(),
      app.add_flag("--no-extern", options.no_extern,
                   "No kernel may call the vendor's library"),
      app.add_flag("--dynamic-batch", options.dynamic_batch,
                   "Kernels, and ModelNew, for any batch: the first dimension "
                   "of the inputs (--target " +
                       any_size_targets() + ")"),
      app.add_option_function<std::vector<std::string>>(
             "--dynamic-dim",
             [&options](const std::vector<std::string>& dims) {
               set_symbolic_dims(options, dims);
             },
             "The same for another dimension: 1 (a sequence), or 2:1 for the "
             "third input's; at most two in all")
          ->allow_extra_args(false)
          ->check(CLI::Validator(check_dim, "[INPUT:]DIM")),
      app.add_option("--seeds", options.seeds,
                     "Sources of candidate kernels, with commas")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Validator(check_seed_source, "SOURCE"))
          ->capture_default_str(),
      app.add_option("--variants", options.variants_max,
                     "Kernels tried for a subgraph, at most")
          ->check(CLI::Range(1, 64))
          ->capture_default_str(),
      app.add_option("--random-seed", options.random_seed,
                     "Seed of all random inputs")
          ->capture_default_str(),
  };
}

/// Where the best kernels of earlier runs are.
Options add_library(CLI::App& app, RunOptions& options) {
  options.known_kernels = default_library().string();
  options.seeds.insert(options.seeds.begin(), "library");
  auto* named =
      app.add_option("--library", options.known_kernels,
                     "The kernel library's file (run: below ~/.cache/weft; "
                     "bench: none)");
  auto* none = app.add_flag_callback(
      "--no-library", [&options] { options.known_kernels.clear(); },
      "Do not use the kernel library");
  return {named, none->excludes(named)};
}

/// Numbers of the range, and 0.
CLI::Validator zero_or(const CLI::Range& range) {
  return {[range](std::string& text) {
            return text == "0" ? std::string() : range(text);
          },
          range.get_description() + " or 0"};
}

/// What is timed, and for how long.
Options add_timing(CLI::App& app, RunOptions& options) {
  return {
      app.add_flag("!--no-compile-baseline", options.compile_baseline,
                   "Do not time torch.compile"),
      app.add_flag("--autotune-baseline", options.autotune_baseline,
                   "Time torch.compile's max-autotune too (takes minutes)"),
      app.add_option("--timing-ms", options.timing_ms,
                     "Spent on timing one kernel")
          ->check(CLI::Range(10, 3'600'000))
          ->capture_default_str(),
      app.add_option("--final-timing-ms", options.final_timing_ms,
                     "Spent on timing the best kernel, and the module; 0: the "
                     "module is checked and not timed")
          ->check(zero_or(CLI::Range(10, 3'600'000)))
          ->capture_default_str(),
  };
}

std::string check_search(const std::string& search) {
  if (beam_width(search) > 0) return "";
  return "'" + search + "' is no search: greedy, or beam:N with N from 1 to 16";
}

/// What a language model is asked, and what it may cost.
Options add_llm(CLI::App& app, RunOptions& options) {
  LlmOptions& llm = options.llm;
  return {
      app.add_option("--llm", llm.name,
                     "The provider that --seeds llm asks (weft llm list)"),
      app.add_option("--rounds", llm.rounds,
                     "Refinements asked for one subgraph, at most")
          ->check(CLI::Range(0, 1'000))
          ->capture_default_str(),
      app.add_option("--samples", llm.samples,
                     "First kernels asked for one subgraph")
          ->check(CLI::Range(1, 64))
          ->capture_default_str(),
      app.add_option("--search", llm.search,
                     "greedy refines the best kernel, beam:N the N best")
          ->check(CLI::Validator(check_search, "SEARCH"))
          ->capture_default_str(),
      app.add_flag("--llm-groups", llm.group,
                   "The language model proposes how the model is partitioned"),
      app.add_flag(
          "--llm-fuses", llm.fuse,
          "The language model writes one kernel for neighbouring winners"),
      app.add_option("--prompts", llm.prompts_folder,
                     "Folder of prompt templates (default: "
                     "~/.config/weft/prompts, else those of weft)"),
      app.add_option_function<double>(
             "--budget-usd",
             [&llm](double usd) {
               llm.budget_micro_usd = static_cast<std::int64_t>(usd * 1e6);
             },
             "Limit for the cost of all calls, in dollars (no limit)")
          ->check(number_range(0.0, 1e6)),
      app.add_option("--budget-tokens", llm.budget_tokens,
                     "Limit for the tokens of all calls, in and out (no limit)")
          ->check(CLI::NonNegativeNumber),
      app.add_option_function<double>(
             "--subgraph-budget-usd",
             [&llm](double usd) {
               llm.subgraph_micro_usd = static_cast<std::int64_t>(usd * 1e6);
             },
             "The same for one subgraph")
          ->check(number_range(0.0, 1e6)),
      app.add_option("--subgraph-budget-tokens", llm.subgraph_tokens,
                     "The same for one subgraph")
          ->check(CLI::NonNegativeNumber),
  };
}

std::string check_choice(const std::string& text) {
  const auto choice = parse_choice(text);
  return choice ? "" : choice.error().message;
}

/// What decides speed alone, for experiments.
CLI::Option* add_choices(CLI::App& app, RunOptions& options) {
  return app
      .add_option_function<std::vector<std::string>>(
          "--choice",
          [&options](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const auto choice = parse_choice(text);
              if (choice) options.choices[choice->first] = choice->second;
            }
          },
          "NAME=VALUE: override a choice that affects speed only (again, or "
          "with commas, for more; 'weft choices' lists them)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Validator(check_choice, "CHOICE"));
}

Options add_limits(CLI::App& app, RunOptions& options) {
  return {
      app.add_option_function<double>(
             "--budget-s",
             [&options](double s) {
               options.budget_ms = static_cast<std::int64_t>(s * 1000);
             },
             "Seconds for the whole run, which then ends with the best so far "
             "(no limit)")
          ->check(number_range(1.0, 1e7)),
      app.add_option_function<std::int64_t>(
             "--capture-seconds",
             [&options](std::int64_t s) { options.capture_ms = s * 1000; },
             "Time limit of loading and capturing the model (600)")
          ->check(CLI::Range(1, 86'400)),
      app.add_option_function<std::int64_t>(
             "--call-seconds",
             [&options](std::int64_t s) { options.call_ms = s * 1000; },
             "Time limit of one call of a kernel (60)")
          ->check(CLI::Range(1, 86'400)),
      app.add_option_function<double>(
             "--memory-gib",
             [&options](double size) {
               options.memory_bytes = static_cast<std::int64_t>(size * kGib);
             },
             "Memory limit of the capture and of one candidate (8)")
          ->check(number_range(0.25, 4096.0)),
  };
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.is_for_runs) names.emplace_back(target.name);
  }
  names.emplace_back("auto");
  return names;
}

std::vector<CLI::Option*> add_run_flags(CLI::App& app, RunOptions& options) {
  Options all = add_library(app, options);
  for (CLI::Option* flag : add_subject(app, options)) all.push_back(flag);
  for (CLI::Option* flag : add_timing(app, options)) all.push_back(flag);
  for (CLI::Option* flag : add_limits(app, options)) all.push_back(flag);
  for (CLI::Option* flag : add_llm(app, options)) all.push_back(flag);
  all.push_back(add_choices(app, options));
  return all;
}

std::vector<std::string> words_of(const std::vector<CLI::Option*>& flags) {
  std::vector<std::string> words;
  for (const CLI::Option* flag : flags) {
    if (flag->count() == 0) continue;
    words.push_back(flag->get_name());
    if (flag->get_items_expected_max() == 0) continue;
    std::string value;
    for (const std::string& part : flag->results()) {
      value += (value.empty() ? "" : ",") + part;
    }
    words.push_back(value);
  }
  return words;
}

}  // namespace weft
