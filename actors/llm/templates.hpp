// The templates of config/prompts/ that language models are asked by, as built
// in or as the user has replaced them. The user's texts travel as blobs in the
// run's first event: a replay needs no file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/role.hpp"

namespace weft {

struct LlmTemplate {
  std::string_view name;  ///< "rules": the file's, without ".md"
  std::string_view text;
  /// What may stand in it as {{word}}.
  std::vector<std::string_view> words;
};

std::span<const LlmTemplate> llm_templates();

/// The text of that name: the user's, or else the built-in one.
Result<std::string> template_text(std::string_view name,
                                  const LlmOptions& options, Blobs& blobs);

/// Words that stand in `text` as {{word}} and that the template does not know.
std::vector<std::string> unknown_words(const LlmTemplate& known,
                                       std::string_view text);

using TemplateWords = std::map<std::string, std::string, std::less<>>;

/// The text with each {{word}} replaced; one that is not known stays.
std::string filled(std::string_view text, const TemplateWords& words);

}  // namespace weft
