#include "runtime/llm/request.hpp"

#include <nlohmann/json.hpp>

#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr const char* kAnthropicVersion = "2023-06-01";

/// Anthropic refuses a fifth breakpoint.
constexpr int kCacheBreakpointsMax = 4;

/// Texts of one role that follow each other, as one message: chat templates of
/// open models insist on turns.
struct Turn {
  std::string role;
  std::vector<const PromptText*> texts;

  std::string joined() const {
    std::string all;
    for (const PromptText* text : texts) {
      all += (all.empty() ? "" : "\n\n") + text->text;
    }
    return repaired_utf8(all);
  }
};

std::vector<Turn> turns_of(const Prompt& prompt) {
  std::vector<Turn> turns;
  for (const PromptText& text : prompt.texts) {
    if (turns.empty() || turns.back().role != text.role) {
      turns.push_back({text.role, {}});
    }
    turns.back().texts.push_back(&text);
  }
  return turns;
}

json openai_messages(const Prompt& prompt) {
  json messages = json::array();
  for (const Turn& turn : turns_of(prompt)) {
    messages.push_back({{"role", turn.role}, {"content", turn.joined()}});
  }
  return messages;
}

/// OpenAI's reasoning models refuse the old name, most other servers know only
/// that.
std::string max_tokens_field(const LlmEndpoint& endpoint) {
  if (!endpoint.max_tokens_field.empty()) return endpoint.max_tokens_field;
  const bool openai = endpoint.base_url.starts_with("https://api.openai.com");
  return openai ? "max_completion_tokens" : "max_tokens";
}

json openai_body(const LlmEndpoint& endpoint, const Prompt& prompt) {
  json body = {{"model", endpoint.provider.model},
               {"messages", openai_messages(prompt)}};
  if (prompt.max_tokens > 0) {
    body[max_tokens_field(endpoint)] = prompt.max_tokens;
  }
  if (prompt.samples > 1 && endpoint.provider.native_samples) {
    body["n"] = prompt.samples;
  }
  if (prompt.temperature >= 0) body["temperature"] = prompt.temperature;
  if (!prompt.effort.empty()) body["reasoning_effort"] = prompt.effort;
  return body;
}

json responses_body(const LlmEndpoint& endpoint, const Prompt& prompt) {
  json body = {{"model", endpoint.provider.model},
               {"input", openai_messages(prompt)},
               {"store", false}};
  if (prompt.max_tokens > 0) body["max_output_tokens"] = prompt.max_tokens;
  if (prompt.temperature >= 0) body["temperature"] = prompt.temperature;
  if (!prompt.effort.empty()) body["reasoning"] = {{"effort", prompt.effort}};
  return body;
}

json anthropic_blocks(const Turn& turn, int& breakpoints) {
  json blocks = json::array();
  for (const PromptText* text : turn.texts) {
    json block = {{"type", "text"}, {"text", repaired_utf8(text->text)}};
    if (text->cache_boundary && breakpoints < kCacheBreakpointsMax) {
      block["cache_control"] = {{"type", "ephemeral"}};
      ++breakpoints;
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

json anthropic_body(const LlmEndpoint& endpoint, const Prompt& prompt) {
  json body = {{"model", endpoint.provider.model},
               {"max_tokens", prompt.max_tokens > 0
                                  ? prompt.max_tokens
                                  : endpoint.provider.max_output_tokens}};
  json messages = json::array();
  int breakpoints = 0;
  for (const Turn& turn : turns_of(prompt)) {
    json blocks = anthropic_blocks(turn, breakpoints);
    if (turn.role != "system") {
      messages.push_back({{"role", turn.role}, {"content", std::move(blocks)}});
      continue;
    }
    json& system = body["system"];
    if (system.is_null()) system = json::array();
    system.insert(system.end(), blocks.begin(), blocks.end());
  }
  body["messages"] = std::move(messages);
  if (prompt.temperature >= 0) body["temperature"] = prompt.temperature;
  if (!prompt.effort.empty()) {
    body["output_config"] = {{"effort", prompt.effort}};
  }
  return body;
}

bool is_anthropic(const LlmEndpoint& endpoint) {
  return endpoint.provider.dialect == "anthropic";
}

}  // namespace

HttpRequest to_endpoint(const LlmEndpoint& endpoint, std::string_view path,
                        std::string_view key) {
  HttpRequest request;
  request.url = endpoint.base_url;
  // Anthropic's own libraries want the address without /v1, people write both.
  if (is_anthropic(endpoint) && !endpoint.base_url.ends_with("/v1")) {
    request.url += "/v1";
  }
  request.url += path;
  request.ca_file = endpoint.ca_file;
  request.connect_ms = endpoint.connect_ms;
  request.idle_ms = endpoint.idle_ms;
  request.total_ms = endpoint.provider.wall_ms;
  request.reply_bytes_max = endpoint.reply_bytes_max;
  for (const auto& [name, value] : endpoint.headers) {
    request.headers.push_back(name + ": " + value);
  }
  if (is_anthropic(endpoint)) {
    request.headers.push_back(std::string("anthropic-version: ") +
                              kAnthropicVersion);
    if (!key.empty()) {
      request.headers.push_back("x-api-key: " + std::string(key));
    }
  } else if (!key.empty()) {
    request.headers.push_back("authorization: Bearer " + std::string(key));
  }
  return request;
}

std::string_view call_path(const LlmEndpoint& endpoint) {
  const std::string& dialect = endpoint.provider.dialect;
  if (dialect == "anthropic") return "/messages";
  return dialect == "responses" ? "/responses" : "/chat/completions";
}

json llm_body(const LlmEndpoint& endpoint, const Prompt& prompt, bool streams) {
  const std::string& dialect = endpoint.provider.dialect;
  json body = dialect == "anthropic"   ? anthropic_body(endpoint, prompt)
              : dialect == "responses" ? responses_body(endpoint, prompt)
                                       : openai_body(endpoint, prompt);
  if (!streams) return body;
  body["stream"] = true;
  if (dialect == "openai") body["stream_options"] = {{"include_usage", true}};
  return body;
}

HttpRequest make_llm_request(const LlmEndpoint& endpoint, const Prompt& prompt,
                             std::string_view key) {
  HttpRequest request = to_endpoint(endpoint, call_path(endpoint), key);
  request.headers.push_back("content-type: application/json");
  request.headers.push_back("accept: text/event-stream");
  request.body = llm_body(endpoint, prompt, true).dump();
  return request;
}

HttpRequest make_models_request(const LlmEndpoint& endpoint,
                                std::string_view key) {
  return to_endpoint(endpoint, "/models", key);
}

}  // namespace weft
