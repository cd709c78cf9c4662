#include "actors/llm/templates.hpp"

#include <algorithm>
#include <functional>

#include "embedded/config/prompts/api_cpu.md"
#include "embedded/config/prompts/api_gpu.md"
#include "embedded/config/prompts/checks.md"
#include "embedded/config/prompts/describe.md"
#include "embedded/config/prompts/device.md"
#include "embedded/config/prompts/group.md"
#include "embedded/config/prompts/idioms_cpu.md"
#include "embedded/config/prompts/idioms_gpu.md"
#include "embedded/config/prompts/kernel_cpu.md"
#include "embedded/config/prompts/measured.md"
#include "embedded/config/prompts/optimize.md"
#include "embedded/config/prompts/propose.md"
#include "embedded/config/prompts/repair.md"
#include "embedded/config/prompts/rules.md"
#include "embedded/config/prompts/task.md"
#include "embedded/config/prompts/timing_cpu.md"
#include "embedded/config/prompts/timing_gpu.md"

namespace weft {
namespace {

/// Calls `take` with each text between {{ and }}, and with what lies before it;
/// returns the rest.
std::string_view for_each_word(
    std::string_view text,
    const std::function<void(std::string_view before, std::string_view word)>&
        take) {
  while (true) {
    const auto begin = text.find("{{");
    const auto end = text.find("}}", begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) {
      return text;
    }
    take(text.substr(0, begin), text.substr(begin + 2, end - begin - 2));
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::span<const LlmTemplate> llm_templates() {
  static const std::vector<LlmTemplate> all = {
      {"rules", embedded::config_prompts_rules, {}},
      {"api_cpu", embedded::config_prompts_api_cpu, {}},
      {"api_gpu", embedded::config_prompts_api_gpu, {}},
      {"timing_cpu", embedded::config_prompts_timing_cpu, {"threads"}},
      {"timing_gpu", embedded::config_prompts_timing_gpu, {}},
      {"device", embedded::config_prompts_device, {"device"}},
      {"task", embedded::config_prompts_task, {"reference", "floor", "facts"}},
      {"checks", embedded::config_prompts_checks, {"tolerance"}},
      {"idioms_cpu", embedded::config_prompts_idioms_cpu, {}},
      {"idioms_gpu", embedded::config_prompts_idioms_gpu, {}},
      {"measured",
       embedded::config_prompts_measured,
       {"measured", "best", "patterns", "history"}},
      {"propose", embedded::config_prompts_propose, {"unusable"}},
      {"repair",
       embedded::config_prompts_repair,
       {"round", "kind", "evidence", "fence", "source"}},
      {"optimize",
       embedded::config_prompts_optimize,
       {"round", "whose", "fence", "source"}},
      {"kernel_cpu",
       embedded::config_prompts_kernel_cpu,
       {"source", "flags", "count", "inputs", "allocations", "pointers",
        "results"}},
      {"describe", embedded::config_prompts_describe, {"description", "fault"}},
      {"group", embedded::config_prompts_group, {"calls", "fault"}},
  };
  return all;
}

Result<std::string> template_text(std::string_view name,
                                  const LlmOptions& options, Blobs& blobs) {
  for (const PromptOverride& other : options.prompts) {
    if (other.prompt == name) return blobs.get(other.blob);
  }
  const auto found =
      std::ranges::find(llm_templates(), name, &LlmTemplate::name);
  if (found != llm_templates().end()) return std::string(found->text);
  return fail(ErrorCode::failed, "no prompt template " + std::string(name));
}

std::vector<std::string> unknown_words(const LlmTemplate& known,
                                       std::string_view text) {
  std::vector<std::string> unknown;
  for_each_word(text, [&](std::string_view, std::string_view word) {
    const bool is_known =
        std::ranges::find(known.words, word) != known.words.end();
    if (!is_known) unknown.emplace_back(word);
  });
  return unknown;
}

std::string filled(std::string_view text, const TemplateWords& words) {
  std::string result;
  const auto rest =
      for_each_word(text, [&](std::string_view before, std::string_view word) {
        const auto found = words.find(word);
        result.append(before);
        result += found == words.end() ? "{{" + std::string(word) + "}}"
                                       : found->second;
      });
  return result.append(rest);
}

}  // namespace weft
