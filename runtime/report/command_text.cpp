#include "runtime/report/command_text.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <type_traits>

#include "compiler/choices/choices.hpp"
#include "messages/joined.hpp"
#include "messages/protection.hpp"

namespace weft {
namespace {

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || std::string_view("-_./,:=+@").contains(c);
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

std::string dollars(std::int64_t micro_usd) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(micro_usd) / 1e6);
  return text;
}

/// Appends " --name value" where the value is not the usual one.
struct Words {
  std::string text;

  void add(const char* name, const std::string& value,
           const std::string& usual) {
    if (value != usual) text += std::string(" ") + name + " " + quoted(value);
  }
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  void add(const char* name, Number value, std::type_identity_t<Number> usual) {
    if (value == usual) return;
    std::ostringstream number;
    number << value;
    add(name, number.str(), "");
  }
  void flag(const std::string& name, bool is_set) {
    if (is_set) text += " " + name;
  }
};

void add_llm(Words& words, const LlmOptions& llm) {
  if (llm.name.empty()) return;
  const LlmOptions usual;
  words.add("--llm", llm.name, "");
  words.add("--rounds", llm.rounds, usual.rounds);
  words.add("--samples", llm.samples, usual.samples);
  words.add("--search", llm.search, usual.search);
  if (llm.budget_micro_usd >= 0) {
    words.add("--budget-usd", dollars(llm.budget_micro_usd), "");
  }
  words.flag("--llm-groups", llm.group);
  words.flag("--llm-fuses", llm.fuse);
  words.add("--prompts", llm.prompts_folder, "");
  words.add("--budget-tokens", llm.budget_tokens, usual.budget_tokens);
  if (llm.subgraph_micro_usd >= 0) {
    words.add("--subgraph-budget-usd", dollars(llm.subgraph_micro_usd), "");
  }
  words.add("--subgraph-budget-tokens", llm.subgraph_tokens,
            usual.subgraph_tokens);
}

}  // namespace

std::string command_text(const RunStart& start) {
  const RunOptions& options = start.options;
  const RunOptions usual;
  Words words{"weft run " + quoted(start.problem_name)};
  words.add("--target", options.target, usual.target);
  if (options.devices.empty()) {
    words.add("--device", options.device, usual.device);
  }
  words.add("--devices", joined(options.devices, ","), "");
  words.add("--precision", options.precision, usual.precision);
  words.add("--accept", options.accept, usual.accept);
  words.add("--rounding", options.rounding, usual.rounding);
  words.add("--mode", options.mode, usual.mode);
  words.flag("--untrusted-problem", is_problem_untrusted(start));
  words.flag("--no-extern", options.no_extern);
  words.flag(size_flags(options), options.dynamic_batch);
  words.add("--seeds", joined(options.seeds, ","), joined(usual.seeds, ","));
  words.add("--variants", options.variants_max, usual.variants_max);
  words.add("--random-seed", static_cast<std::int64_t>(options.random_seed), 1);
  if (options.known_kernels.empty()) {
    words.flag("--no-library", true);
  } else {
    words.add("--library", options.known_kernels, "");
  }
  words.flag("--no-compile-baseline", !options.compile_baseline);
  words.flag("--autotune-baseline", options.autotune_baseline);
  words.add("--timing-ms", options.timing_ms, usual.timing_ms);
  words.add("--final-timing-ms", options.final_timing_ms,
            usual.final_timing_ms);
  words.add("--capture-seconds", options.capture_ms / 1000,
            usual.capture_ms / 1000);
  words.add("--call-seconds", options.call_ms / 1000, usual.call_ms / 1000);
  constexpr double kGib = 1 << 30;
  words.add("--memory-gib", static_cast<double>(options.memory_bytes) / kGib,
            static_cast<double>(usual.memory_bytes) / kGib);
  words.add("--budget-s", static_cast<double>(options.budget_ms) / 1000, 0);
  for (const auto& [name, value] : options.choices) {
    words.add("--choice", name + "=" + choice_text(value), "");
  }
  add_llm(words, options.llm);
  return words.text;
}

}  // namespace weft
