// A prompt as the HTTP call that each dialect wants: OpenAI chat completions,
// OpenAI responses, Anthropic messages. Always stateless and streamed: a
// journal must hold the whole prompt, and a long silence is told from a hang.
#pragma once

#include <string_view>

#include "config/llm_endpoint.hpp"
#include "runtime/llm/http.hpp"
#include "runtime/llm/prompt.hpp"

namespace weft {

/// `key` may be empty: none is sent.
HttpRequest make_llm_request(const LlmEndpoint& endpoint, const Prompt& prompt,
                             std::string_view key);

/// The list of the provider's models.
HttpRequest make_models_request(const LlmEndpoint& endpoint,
                                std::string_view key);

}  // namespace weft
