// `weft llm`: which language models are declared, what one offers, and whether
// it answers.
#pragma once

#include "tools/weft/commands.hpp"

namespace weft {

int llm_list_command(const CommonFlags& common);
int llm_models_command(const CommonFlags& common, const std::string& name);

/// Makes one tiny call, which costs about nothing.
int llm_check_command(const CommonFlags& common, const std::string& name);

/// Writes the built-in prompt templates to a folder, to change them there.
int llm_prompts_command(const CommonFlags& common,
                        const std::filesystem::path& folder);

}  // namespace weft
