#include "runtime/llm/classify.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "runtime/llm/limits.hpp"

namespace weft {
namespace {

constexpr int kPaymentRequired = 402;
constexpr int kRateLimited = 429;
constexpr int kOverloaded = 529;  ///< Anthropic's own

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return text;
}

template <std::size_t N>
bool contains_any(const std::string& text,
                  const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return text.find(word) != std::string::npos;
  });
}

/// Types and codes that say that no money or no quota is left (OpenAI,
/// Anthropic, LiteLLM, OpenRouter).
constexpr std::array<std::string_view, 7> kSpentCodes = {
    "insufficient_quota", "billing",          "budget_exceeded",
    "quota_exceeded",     "credit_exhausted", "insufficient_credits",
    "access_terminated"};

/// The same in words, where the code says only that it is a rate or a wrong
/// request.
constexpr std::array<std::string_view, 12> kSpentWords = {
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
    "insufficient funds",
    "budget has been exceeded",
    "exceeded budget",
    "billing hard limit",
    "requests per day",
    "tokens per day",
    "per-day",
    "daily limit"};

bool is_spent(const ServerError& error) {
  return contains_any(lower(error.type + " " + error.code), kSpentCodes) ||
         contains_any(lower(error.message), kSpentWords);
}

/// What an error within a stream would have been as a status.
int status_of(const ServerError& error) {
  const std::string name = lower(error.type + " " + error.code);
  const auto has = [&](std::string_view word) {
    return name.find(word) != std::string::npos;
  };
  if (has("overloaded")) return kOverloaded;
  if (has("rate_limit")) return kRateLimited;
  if (has("timeout")) return 504;
  if (has("authentication")) return 401;
  if (has("permission")) return 403;
  if (has("not_found")) return 404;
  if (has("invalid_request") || has("invalid_prompt")) return 400;
  const int code = std::atoi(error.code.c_str());
  constexpr int kFirst = 400;
  constexpr int kLast = 599;
  return code >= kFirst && code <= kLast ? code : 500;
}

std::string host_of(const LlmEndpoint& endpoint) {
  const auto scheme = endpoint.base_url.find("://");
  const auto begin = scheme == std::string::npos ? 0 : scheme + 3;
  return endpoint.base_url.substr(begin,
                                  endpoint.base_url.find('/', begin) - begin);
}

/// "mini (api.openai.com)": who is meant.
std::string who(const LlmEndpoint& endpoint) {
  return endpoint.provider.name + " (" + host_of(endpoint) + ")";
}

std::string key_source(const LlmEndpoint& endpoint) {
  if (!endpoint.key_env.empty()) return "the variable " + endpoint.key_env;
  if (!endpoint.key_file.empty()) return "the file " + endpoint.key_file;
  return "key_env or key_file, of which none is set";
}

std::string reason_text(const std::optional<ServerError>& error) {
  if (!error) return "";
  constexpr std::size_t kShown = 500;
  std::string text = error->message.substr(0, kShown);
  if (text.empty()) text = error->type.empty() ? error->code : error->type;
  // More is said behind it.
  if (text.ends_with('.')) text.pop_back();
  return text.empty() ? "" : ": " + text;
}

/// What a person can do about a request that will never work.
std::string advice(const LlmEndpoint& endpoint, const HttpHead& head) {
  const std::string section = "[llm." + endpoint.provider.name + "]";
  switch (head.status) {
    case 401:
      return "; check the key in " + key_source(endpoint);
    case 403:
      return "; the key in " + key_source(endpoint) + " may not do this";
    case 404:
      return "; check model (" + endpoint.provider.model + ") and base_url (" +
             endpoint.base_url + ") of " + section + ": 'weft llm models " +
             endpoint.provider.name + "' lists what there is";
    case 413:
      return "; the prompt is too long for this server";
    default:
      return "";
  }
}

Classified redirected(const LlmEndpoint& endpoint, const HttpHead& head) {
  const auto location = head.headers.find("location");
  std::string text = who(endpoint) + " redirects";
  if (location != head.headers.end()) text += " to " + location->second;
  text +=
      ": not followed, since the key would go along; set base_url of [llm." +
      endpoint.provider.name + "] to the right address";
  return {{"wrong_input", text}, -1, false};
}

std::string status_text(const LlmEndpoint& endpoint, int status) {
  return who(endpoint) + " answers " + std::to_string(status);
}

/// What the server wants waited for; an end to all tries where that is long.
void take_wait(const HttpHead& head, std::int64_t now_ms, Classified& result) {
  const auto wait = retry_after_ms(head.headers, now_ms);
  if (!wait) return;
  result.retry_after_ms = *wait;
  if (*wait <= kRetryAfterMsMax) return;
  result.failure.code = "quota";
  result.failure.message += "; it wants to be asked again in " +
                            std::to_string(*wait / 1000) +
                            " s, which is too long to wait: no retry";
}

Failure failure_of_status(const LlmEndpoint& endpoint, const HttpHead& head,
                          int status, const std::optional<ServerError>& error) {
  const std::string text = status_text(endpoint, status) + reason_text(error);
  if (status == kPaymentRequired || (error && is_spent(*error))) {
    return {"quota", text + ": no money or quota is left there; no retry"};
  }
  if (status == kRateLimited) return {"rate_limited", text};
  if (status == kOverloaded || status >= 500 || status == 408) {
    return {"overloaded", text};
  }
  constexpr int kConflict = 409;
  constexpr int kTooEarly = 425;
  if (status == kConflict || status == kTooEarly) return {"failed", text};
  HttpHead as_status = head;
  as_status.status = status;
  return {"wrong_input", text + advice(endpoint, as_status)};
}

/// x-should-retry goes before what the status would say.
void take_word(const HttpHead& head, Failure& failure) {
  const auto word = should_retry(head.headers);
  if (!word || failure.code == "quota") return;
  const bool again = failure.code != "wrong_input";
  if (*word && !again) failure.code = "failed";
  if (!*word && again) {
    failure.code = "wrong_input";
    failure.message += "; it says that a retry is no use";
  }
}

}  // namespace

Classified classify_transport(const LlmEndpoint& endpoint, const HttpEnd& end) {
  const std::string section = "[llm." + endpoint.provider.name + "]";
  const std::string what = who(endpoint) + ": " + end.message;
  switch (end.kind) {
    case HttpEnd::Kind::done:
      return {};
    case HttpEnd::Kind::wrong_url:
      return {
          {"wrong_input", what + "; check base_url of " + section}, -1, false};
    case HttpEnd::Kind::unreachable:
      return {
          {"failed", what + "; check base_url of " + section +
                         " and the network (proxies: HTTPS_PROXY, HTTP_PROXY)"},
          -1,
          false};
    case HttpEnd::Kind::untrusted:
      return {{"wrong_input",
               what + "; name the right certificates with ca_file of " +
                   section + " or SSL_CERT_FILE"},
              -1,
              false};
    case HttpEnd::Kind::too_large:
      return {{"failed", what}, -1, true};
    case HttpEnd::Kind::idle:
    case HttpEnd::Kind::too_long:
      return {{"overloaded", what}, -1, end.sent};
    case HttpEnd::Kind::cut:
      return {{"failed", what}, -1, end.sent};
    case HttpEnd::Kind::cancelled:
      return {{"cancelled", what}, -1, end.sent};
  }
  return {};
}

Classified classify_error(const LlmEndpoint& endpoint, const HttpHead& head,
                          const std::optional<ServerError>& error,
                          std::int64_t now_ms) {
  constexpr int kRedirects = 300;
  constexpr int kErrors = 400;
  if (head.status >= kRedirects && head.status < kErrors) {
    return redirected(endpoint, head);
  }
  Classified result;
  result.failure = failure_of_status(endpoint, head, head.status, error);
  take_word(head, result.failure);
  take_wait(head, now_ms, result);
  // A gateway does not know what became of the call behind it.
  result.billed_maybe = head.status == 502 || head.status == 504;
  return result;
}

Classified classify_stream_error(const LlmEndpoint& endpoint,
                                 const HttpHead& head, const ServerError& error,
                                 std::int64_t now_ms) {
  Classified result;
  result.failure = failure_of_status(endpoint, head, status_of(error), error);
  result.failure.message += " (within the reply)";
  take_wait(head, now_ms, result);
  result.billed_maybe = true;
  return result;
}

}  // namespace weft
