#include "actors/llm/report.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "actors/llm/calls.hpp"
#include "actors/llm/search.hpp"
#include "actors/number_text.hpp"
#include "messages/shown_text.hpp"

namespace weft {
namespace {

std::string seconds(std::int64_t ms) {
  return number(static_cast<double>(ms) / 1e3, "%.1f s");
}

/// One candidate and, below it and further in, what came of it.
std::string branch(const std::vector<LlmTry>& tries, const LlmTry& llm_try,
                   const std::string& indent) {
  std::string text =
      indent + terminal_line(llm_try.id) + "  " + terminal_line(llm_try.kind);
  if (llm_try.median_us > 0)
    text += ", " + number(llm_try.median_us, "%.1f us");
  text += "\n";
  for (const LlmTry& child : tries) {
    if (child.parent == llm_try.id && child.round > llm_try.round) {
      text += branch(tries, child, indent + "  ");
    }
  }
  return text;
}

std::string tree(const SubgraphDone& done) {
  const std::vector<LlmTry>& tries = done.llm.tries;
  if (tries.empty()) return "";
  std::string text =
      "\nWhat came of what for " + markdown_line(done.subgraph) + ":\n\n";
  for (const LlmTry& llm_try : tries) {
    const auto parent = std::ranges::find(tries, llm_try.parent, &LlmTry::id);
    if (llm_try.parent.empty() || parent == tries.end()) {
      text += branch(tries, llm_try, "    ");
    }
  }
  return text;
}

}  // namespace

std::string llm_section(const Report& report) {
  const LlmOptions& options = report.run.options.llm;
  if (options.name.empty()) return "";
  std::string text = "\n## Language model: " + markdown_line(options.name) +
                     "\n\n| id | rounds | calls (cached) | tokens | cost | "
                     "waited | why it ended "
                     "|\n|---|---|---|---|---|---|---|\n";
  for (const SubgraphDone& done : report.subgraphs) {
    const LlmSpent& spent = done.llm.spent;
    text += "| " + markdown_line(done.subgraph) + " | " +
            std::to_string(done.llm.rounds) + " | " +
            std::to_string(spent.calls) + " (" +
            std::to_string(spent.from_cache) + ") | " +
            std::to_string(spent.tokens) + " | " + dollars(spent.micro_usd) +
            " | " + seconds(spent.waited_ms) + " | " +
            markdown_line(done.llm.note) + " |\n";
  }
  const LlmSpent all = llm_spent(report);
  text += "\nIn all: " + std::to_string(all.calls) + " calls, " +
          std::to_string(all.tokens) + " tokens, " + dollars(all.micro_usd) +
          "; " + seconds(all.waited_ms) + " of waiting until they were allowed";
  if (options.budget_micro_usd >= 0) {
    text += "; " + dollars(options.budget_micro_usd) + " were allowed";
  }
  if (options.budget_tokens >= 0) {
    text +=
        "; " + std::to_string(options.budget_tokens) + " tokens were allowed";
  }
  text += ".\n";
  if (!options.prompts_folder.empty()) {
    text += "\nPrompts of the user's own, from " +
            markdown_line(options.prompts_folder) + ":";
    for (const PromptOverride& entry : options.prompts) {
      text += " " + markdown_line(entry.prompt);
    }
    text += ".\n";
  }
  for (const SubgraphDone& done : report.subgraphs) text += tree(done);
  return text;
}

std::string csv_llm(int rounds, const LlmSpent& spent) {
  return std::to_string(rounds) + "," + std::to_string(spent.calls) + "," +
         std::to_string(spent.from_cache) + "," + std::to_string(spent.tokens) +
         "," + number(static_cast<double>(spent.micro_usd) / 1e6, "%.6f") +
         "," + std::to_string(spent.waited_ms);
}

LlmSpent llm_spent(const Report& report) {
  LlmSpent all;
  for (const SubgraphDone& done : report.subgraphs) {
    add_spent(all, done.llm.spent);
  }
  return all;
}

bool ran_out_of_budget(const Report& report) {
  return std::ranges::any_of(report.subgraphs, [](const SubgraphDone& done) {
    return done.llm.out_of_budget;
  });
}

std::string llm_trouble(const Report& report) {
  if (ran_out_of_budget(report)) {
    return "the budget for language models ended first";
  }
  for (const SubgraphDone& done : report.subgraphs) {
    const std::string& note = done.llm.note;
    if (!note.starts_with(kNoFurtherCall)) continue;
    return "the language model was given up: " +
           note.substr(kNoFurtherCall.size());
  }
  return "";
}

}  // namespace weft
