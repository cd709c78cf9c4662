// A prompt as the HTTP call that each dialect wants: OpenAI chat completions,
// OpenAI responses, Anthropic messages. Always stateless and streamed: a
// journal must hold the whole prompt, and a long silence is told from a hang.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "config/llm_endpoint.hpp"
#include "runtime/llm/http.hpp"
#include "runtime/llm/prompt.hpp"

namespace weft {

/// `key` may be empty: none is sent.
HttpRequest make_llm_request(const LlmEndpoint& endpoint, const Prompt& prompt,
                             std::string_view key);

/// Its body; `streams`: the reply comes as it is written.
nlohmann::json llm_body(const LlmEndpoint& endpoint, const Prompt& prompt,
                        bool streams);

/// Where calls of the endpoint's dialect go: "/chat/completions".
std::string_view call_path(const LlmEndpoint& endpoint);

/// A GET of that path, with the headers that every request has.
HttpRequest to_endpoint(const LlmEndpoint& endpoint, std::string_view path,
                        std::string_view key);

/// The list of the provider's models.
HttpRequest make_models_request(const LlmEndpoint& endpoint,
                                std::string_view key);

}  // namespace weft
