// The user's own prompt templates: files like those of config/prompts/ in a
// folder, each of which replaces the built-in one of its name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "messages/llm.hpp"

namespace weft {

struct PromptFile {
  std::string name;  ///< "rules", of rules.md
  std::string text;
};

/// Those of the folder that the options name, else of ~/.config/weft/prompts,
/// which need not be there; the folder's absolute path stays in the options.
/// None where no language model is named.
/// wrong_input: no such folder or template, a word that nothing stands for.
Result<std::vector<PromptFile>> read_prompt_files(LlmOptions& options);

/// As the run's first event has them.
std::vector<PromptOverride> keep_prompts(const std::vector<PromptFile>& files,
                                         Blobs& blobs);

/// Writes the built-in ones to `folder`, to begin from. What is there stays:
/// wrong_input.
Result<void> write_prompt_files(const std::filesystem::path& folder);

}  // namespace weft
