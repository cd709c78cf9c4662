#include "runtime/llm/reply_reader.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "runtime/llm/json_fields.hpp"
#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// More samples than a call can ask for; a hostile index must not make us
/// allocate.
constexpr std::size_t kChoicesMax = 128;

std::int64_t count_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  constexpr double kTokensMax = 1e12;
  return value > 0 && value < kTokensMax ? static_cast<std::int64_t>(value) : 0;
}

/// OpenAI's convention, chat completions' and responses' names alike: what was
/// cached and what was reasoned is contained in the totals.
LlmUsage openai_usage(const json& usage) {
  const bool chat = usage.contains("prompt_tokens");
  const json& in =
      object_in(usage, chat ? "prompt_tokens_details" : "input_tokens_details");
  const json& out = object_in(
      usage, chat ? "completion_tokens_details" : "output_tokens_details");
  const std::int64_t input =
      count_in(usage, chat ? "prompt_tokens" : "input_tokens");
  const std::int64_t output =
      count_in(usage, chat ? "completion_tokens" : "output_tokens");
  LlmUsage llm_usage;
  llm_usage.known = true;
  llm_usage.cached = std::min(count_in(in, "cached_tokens"), input);
  llm_usage.cache_written =
      std::min(count_in(in, "cache_write_tokens"), input - llm_usage.cached);
  llm_usage.input = input - llm_usage.cached - llm_usage.cache_written;
  llm_usage.reasoning = std::min(count_in(out, "reasoning_tokens"), output);
  llm_usage.output = output - llm_usage.reasoning;
  return llm_usage;
}

/// "stop", "length" and "refusal" of each provider's words.
std::string finish_named(const std::string& reason) {
  if (reason == "end_turn" || reason == "stop_sequence") return "stop";
  if (reason == "max_tokens" || reason == "max_output_tokens" ||
      reason == "model_context_window_exceeded") {
    return "length";
  }
  if (reason == "content_filter") return "refusal";
  return reason;
}

class OpenAiReader : public ReplyReader {
 protected:
  void take(const json& data) override {
    take_facts(data);
    for (const json& choice : list_in(data, "choices")) {
      take_choice(choice, object_in(choice, "delta"));
    }
  }

  void take_document(const json& document) override {
    take_facts(document);
    for (const json& choice : list_in(document, "choices")) {
      take_choice(choice, object_in(choice, "message"));
    }
    ended_ = !texts_.empty();
  }

 private:
  void take_facts(const json& data) {
    if (model_.empty()) model_ = text_in(data, "model");
    const json& usage = object_in(data, "usage");
    if (usage.empty()) return;
    usage_ = openai_usage(usage);
    // OpenRouter's: in dollars.
    const auto cost = usage.find("cost");
    if (cost != usage.end() && cost->is_number()) {
      const double usd = cost->get<double>();
      constexpr double kUsdMax = 1e6;
      if (usd >= 0 && usd < kUsdMax)
        reported_micro_usd_ = std::llround(usd * 1e6);
    }
  }

  void take_choice(const json& choice, const json& fields) {
    const auto index = static_cast<std::size_t>(count_in(choice, "index"));
    if (index >= kChoicesMax) return;
    AnswerText& answer = text_at(index);
    add_text(index, text_in(fields, "content"));
    const std::string refusal = text_in(fields, "refusal");
    if (!refusal.empty()) {
      add_text(index, refusal);
      refused_ = true;
    }
    // vLLM's and DeepSeek's, and OpenRouter's: what is thought aloud is no
    // part of the answer, but a sign of life.
    if (!text_in(fields, "reasoning_content").empty() ||
        !text_in(fields, "reasoning").empty()) {
      begun_ = true;
    }
    const std::string finish = text_in(choice, "finish_reason");
    if (!finish.empty()) {
      answer.finish_reason = refused_ ? "refusal" : finish_named(finish);
    }
  }

  bool refused_ = false;
};

class AnthropicReader : public ReplyReader {
 protected:
  void take(const json& data) override {
    const std::string type = text_in(data, "type");
    if (type == "message_start") {
      const json& message = object_in(data, "message");
      model_ = text_in(message, "model");
      take_usage(object_in(message, "usage"));
    } else if (type == "content_block_start") {
      take_block(object_in(data, "content_block"));
    } else if (type == "content_block_delta") {
      take_block(object_in(data, "delta"));
    } else if (type == "message_delta") {
      finish(text_in(object_in(data, "delta"), "stop_reason"));
      take_usage(object_in(data, "usage"));
      has_final_usage_ = true;
    } else if (type == "message_stop") {
      text_at(0);
      ended_ = true;
    }
    // The output of a reply that broke off is not known.
    usage_.known = has_input_ && has_final_usage_;
  }

  void take_document(const json& document) override {
    model_ = text_in(document, "model");
    text_at(0);
    for (const json& block : list_in(document, "content")) take_block(block);
    finish(text_in(document, "stop_reason"));
    take_usage(object_in(document, "usage"));
    usage_.known = has_input_;
    ended_ = document.contains("content");
  }

 private:
  void take_block(const json& block) {
    const std::string type = text_in(block, "type");
    if (type == "text" || type == "text_delta") {
      add_text(0, text_in(block, "text"));
    } else if (type.starts_with("thinking")) {
      begun_ = true;
    }
  }

  void finish(const std::string& reason) {
    if (!reason.empty()) text_at(0).finish_reason = finish_named(reason);
  }

  /// What is cached is not contained in the input here. The last word holds:
  /// counts are of all so far, not of what is new.
  void take_usage(const json& usage) {
    if (usage.contains("input_tokens")) {
      has_input_ = true;
      usage_.input = count_in(usage, "input_tokens");
    }
    if (usage.contains("cache_read_input_tokens")) {
      usage_.cached = count_in(usage, "cache_read_input_tokens");
    }
    if (usage.contains("cache_creation_input_tokens")) {
      usage_.cache_written = count_in(usage, "cache_creation_input_tokens");
    }
    if (usage.contains("output_tokens")) {
      usage_.output = count_in(usage, "output_tokens");
    }
  }

  bool has_input_ = false;
  bool has_final_usage_ = false;
};

class ResponsesReader : public ReplyReader {
 protected:
  void take(const json& data) override {
    const std::string type = text_in(data, "type");
    if (type == "response.output_text.delta") {
      add_text(0, text_in(data, "delta"));
    } else if (type == "response.refusal.delta") {
      add_text(0, text_in(data, "delta"));
      refused_ = true;
    } else if (type.starts_with("response.reasoning")) {
      begun_ = true;
    } else if (type == "response.completed" || type == "response.incomplete" ||
               type == "response.failed" || type == "response.cancelled") {
      conclude(object_in(data, "response"));
    }
  }

  void take_document(const json& document) override {
    for (const json& item : list_in(document, "output")) {
      for (const json& part : list_in(item, "content")) {
        add_text(0, text_in(part, "text"));
        refused_ = refused_ || !text_in(part, "refusal").empty();
        add_text(0, text_in(part, "refusal"));
      }
    }
    conclude(document);
  }

 private:
  void conclude(const json& response) {
    model_ = text_in(response, "model");
    const json& usage = object_in(response, "usage");
    if (!usage.empty()) usage_ = openai_usage(usage);
    error_ = error_in(response);
    const std::string status = text_in(response, "status");
    if (!error_ && (status == "failed" || status == "cancelled")) {
      error_ = ServerError{"server_error", "", "the response is " + status};
    }
    const std::string reason =
        text_in(object_in(response, "incomplete_details"), "reason");
    text_at(0).finish_reason = refused_         ? "refusal"
                               : reason.empty() ? "stop"
                                                : finish_named(reason);
    ended_ = !status.empty();
  }

  bool refused_ = false;
};

}  // namespace

std::optional<ServerError> error_in(const json& body) {
  if (!body.is_object()) return std::nullopt;
  const auto found = body.find("error");
  if (found == body.end() || found->is_null()) {
    // Some servers (vLLM's older ones, FastAPI's own) put it at the top.
    if (text_in(body, "object") == "error" ||
        text_in(body, "type") == "error") {
      return ServerError{text_in(body, "type"), text_in(body, "code"),
                         text_in(body, "message")};
    }
    const std::string detail = text_in(body, "detail");
    if (!detail.empty()) return ServerError{"", "", detail};
    return std::nullopt;
  }
  if (found->is_string()) return ServerError{"", "", found->get<std::string>()};
  if (!found->is_object()) return std::nullopt;
  ServerError error{text_in(*found, "type"), text_in(*found, "code"),
                    text_in(*found, "message")};
  const auto code = found->find("code");
  if (code != found->end() && code->is_number_integer()) {
    error.code = std::to_string(code->get<std::int64_t>());
  }
  return error;
}

void ReplyReader::take_event(const SseEvent& event, bool last) {
  // The whole of the data: an answer may well contain these letters.
  if (event.data == "[DONE]") {
    ended_ = true;
    return;
  }
  if (event.data.empty()) return;
  take_json(event.data, false, last);
}

void ReplyReader::take_whole(std::string_view body) {
  take_json(body, true, false);
}

void ReplyReader::take_json(std::string_view text, bool whole, bool last) {
  const json data = parse_json(repaired_utf8(text));
  if (!data.is_object()) {
    if (malformed_.empty() && !last) {
      malformed_ = "not a JSON object: " + repaired_utf8(text);
    }
    return;
  }
  if (auto error = error_in(data)) {
    error_ = std::move(error);
    return;
  }
  // A field of another type than it should be is one that lacks: nothing
  // here throws. The catch is for what nobody thought of.
  try {
    whole ? take_document(data) : take(data);
  } catch (const json::exception& wrong) {
    if (malformed_.empty()) malformed_ = wrong.what();
  }
}

AnswerText& ReplyReader::text_at(std::size_t index) {
  if (texts_.size() <= index) texts_.resize(index + 1);
  return texts_[index];
}

void ReplyReader::add_text(std::size_t index, std::string_view text) {
  if (text.empty()) return;
  begun_ = true;
  text_at(index).text += text;
}

std::unique_ptr<ReplyReader> make_reply_reader(std::string_view dialect) {
  if (dialect == "anthropic") return std::make_unique<AnthropicReader>();
  if (dialect == "responses") return std::make_unique<ResponsesReader>();
  return std::make_unique<OpenAiReader>();
}

std::int64_t cost_of(const LlmUsage& usage, const LlmPrices& prices) {
  constexpr double kTokensOfPrice = 1e6;
  const double cost =
      static_cast<double>(usage.input) * static_cast<double>(prices.input) +
      static_cast<double>(usage.cached) * static_cast<double>(prices.cached) +
      static_cast<double>(usage.cache_written) *
          static_cast<double>(prices.cache_written) +
      static_cast<double>(usage.output) * static_cast<double>(prices.output) +
      static_cast<double>(usage.reasoning) *
          static_cast<double>(prices.reasoning);
  return static_cast<std::int64_t>(std::ceil(cost / kTokensOfPrice));
}

}  // namespace weft
