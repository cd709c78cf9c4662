#include "tools/weft/llm_command.hpp"

#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <string>

#include "messages/shown_text.hpp"
#include "runtime/llm/client.hpp"
#include "runtime/llm/key.hpp"
#include "runtime/llm/reply_reader.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/prompt_files.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// What a program must know of a call that failed, beside the words.
void print_failure(const CommonFlags& common, const LlmAnswer& answer) {
  if (!common.json) return;
  const json line = {{"failure", answer.failure.code},
                     {"http_status", answer.http_status},
                     {"retry_after_ms", answer.retry_after_ms},
                     {"billed_maybe", answer.billed_maybe}};
  print_line(line);
}

/// Enough for a model that thinks before it says its one word.
constexpr std::int64_t kCheckTokensMax = 1'024;

Result<LlmEndpoint> endpoint_named(const CommonFlags& common,
                                   const std::string& name) {
  const auto loaded = load_settings(common.config);
  if (!loaded) return std::unexpected(loaded.error());
  return find_endpoint(loaded->endpoints, name);
}

Error error_of(const Failure& failure) {
  if (failure.code == "missing") return {ErrorCode::missing, failure.message};
  if (failure.code == "wrong_input") {
    return {ErrorCode::wrong_input, failure.message};
  }
  return {ErrorCode::failed, failure.message};
}

Prompt check_prompt(const LlmEndpoint& endpoint) {
  Prompt prompt;
  prompt.texts = {{"user", "Answer with the one word: ready"}};
  prompt.max_tokens =
      std::min(kCheckTokensMax, endpoint.provider.max_output_tokens);
  prompt.temperature = endpoint.provider.temperature;
  prompt.effort = endpoint.provider.effort;
  return prompt;
}

LlmAnswer ask(const LlmEndpoint& endpoint) {
  std::promise<LlmAnswer> promise;
  LlmClient client;
  client.ask(endpoint, check_prompt(endpoint),
             [&](LlmAnswer answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

/// "499 of 500 left, again in 12 s"; empty: nothing was told.
std::string limit_text(std::int64_t limit, std::int64_t remaining,
                       std::int64_t reset_ms) {
  std::string text;
  if (remaining >= 0) text = std::to_string(remaining) + " left";
  if (limit >= 0) {
    text = text.empty() ? std::to_string(limit)
                        : std::to_string(remaining) + " of " +
                              std::to_string(limit) + " left";
  }
  if (reset_ms >= 0) {
    text += (text.empty() ? "" : ", ") + std::string("reset in ") +
            std::to_string(reset_ms) + " ms";
  }
  return text;
}

std::int64_t cost(const LlmEndpoint& endpoint, const LlmAnswer& answer) {
  const std::int64_t ours = cost_of(answer.usage, endpoint.provider.prices);
  return ours > 0 ? ours : std::max<std::int64_t>(0, answer.reported_micro_usd);
}

std::string usage_text(const LlmEndpoint& endpoint, const LlmAnswer& answer) {
  const LlmUsage& usage = answer.usage;
  if (!usage.known) return "the server reports none: budgets count the maximum";
  const auto n = [](std::int64_t count) { return std::to_string(count); };
  char usd[32];
  const std::int64_t micro_usd = cost(endpoint, answer);
  std::snprintf(usd, sizeof usd, "%.6f USD",
                static_cast<double>(micro_usd) / 1e6);
  return "in " + n(usage.input) + ", cached " + n(usage.cached) +
         ", written to the cache " + n(usage.cache_written) + ", out " +
         n(usage.output) + ", reasoning " + n(usage.reasoning) + "; " +
         (endpoint.has_prices || micro_usd > 0 ? usd : "no prices are set");
}

void print_check(const LlmEndpoint& endpoint, const LlmAnswer& answer) {
  const auto line = [](const char* what, const std::string& text) {
    std::printf("  %-9s %s\n", what, terminal_line(text).c_str());
  };
  std::printf("%s: %s at %s\n", terminal_line(endpoint.provider.name).c_str(),
              terminal_line(endpoint.provider.dialect).c_str(),
              terminal_line(endpoint.base_url).c_str());
  line("model",
       (answer.model.empty() ? "(not reported)" : answer.model) +
           (answer.request_id.empty() ? "" : ", request " + answer.request_id));
  constexpr std::size_t kShown = 60;
  const json fields = answer.texts.front().text.substr(0, kShown);
  // As JSON has it: on one line, whatever the model says.
  line("answer", fields.dump(-1, ' ', false, json::error_handler_t::replace) +
                     " (" + answer.texts.front().finish_reason + ")");
  line("latency", std::to_string(answer.latency_ms) +
                      " ms, first token after " +
                      std::to_string(answer.first_token_ms) + " ms");
  line("tokens", usage_text(endpoint, answer));
  const LlmHeaderLimits& limits = answer.limits;
  const std::string requests =
      limit_text(limits.requests_limit, limits.requests_remaining,
                 limits.requests_reset_ms);
  const std::string tokens = limit_text(
      limits.tokens_limit, limits.tokens_remaining, limits.tokens_reset_ms);
  line("requests", requests.empty() ? "its headers tell no limit" : requests);
  line("tokens", tokens.empty() ? "its headers tell no limit" : tokens);
  const std::string warning = key_file_warning(endpoint);
  if (!warning.empty()) line("key", warning);
}

json check_json(const LlmEndpoint& endpoint, const LlmAnswer& answer) {
  const LlmUsage& usage = answer.usage;
  const LlmHeaderLimits& limits = answer.limits;
  return {{"provider", endpoint.provider.name},
          {"model", answer.model},
          {"request_id", answer.request_id},
          {"answer", answer.texts.front().text},
          {"finish_reason", answer.texts.front().finish_reason},
          {"latency_ms", answer.latency_ms},
          {"first_token_ms", answer.first_token_ms},
          {"micro_usd", cost(endpoint, answer)},
          {"usage",
           {{"known", usage.known},
            {"input", usage.input},
            {"cached", usage.cached},
            {"cache_written", usage.cache_written},
            {"output", usage.output},
            {"reasoning", usage.reasoning}}},
          {"limits",
           {{"requests", limits.requests_limit},
            {"requests_remaining", limits.requests_remaining},
            {"requests_reset_ms", limits.requests_reset_ms},
            {"tokens", limits.tokens_limit},
            {"tokens_remaining", limits.tokens_remaining},
            {"tokens_reset_ms", limits.tokens_reset_ms}}}};
}

std::string key_text(const LlmEndpoint& endpoint) {
  if (endpoint.key_env.empty() && endpoint.key_file.empty()) return "no key";
  if (!read_key(endpoint)) return "its key is missing";
  const std::string warning = key_file_warning(endpoint);
  return "key found" + (warning.empty() ? "" : "; " + warning);
}

}  // namespace

int llm_list_command(const CommonFlags& common) {
  const auto loaded = load_settings(common.config);
  if (!loaded) return report_error(common, loaded.error());
  for (const LlmEndpoint& endpoint : loaded->endpoints) {
    const LlmProvider& provider = endpoint.provider;
    if (common.json) {
      const json line = {{"provider", provider.name},
                         {"dialect", provider.dialect},
                         {"model", provider.model},
                         {"base_url", endpoint.base_url},
                         {"key", key_text(endpoint)}};
      print_line(line);
    } else {
      std::printf("%-16s %-10s %-28s %s (%s)\n",
                  terminal_line(provider.name).c_str(),
                  terminal_line(provider.dialect).c_str(),
                  terminal_line(provider.model).c_str(),
                  terminal_line(endpoint.base_url).c_str(),
                  terminal_line(key_text(endpoint)).c_str());
    }
  }
  if (loaded->endpoints.empty() && !common.json) {
    std::printf(
        "no language model is declared: docs/how-to/language-models.md says "
        "how\n");
  }
  return 0;
}

int llm_models_command(const CommonFlags& common, const std::string& name) {
  const auto endpoint = endpoint_named(common, name);
  if (!endpoint) return report_error(common, endpoint.error());
  std::promise<std::pair<LlmAnswer, std::vector<std::string>>> promise;
  LlmClient client;
  client.list_models(
      *endpoint, [&](LlmAnswer answer, std::vector<std::string> models) {
        promise.set_value({std::move(answer), std::move(models)});
      });
  const auto [answer, models] = promise.get_future().get();
  if (answer.failure) return report_error(common, error_of(answer.failure));
  for (const std::string& model : models) {
    std::printf("%s\n", terminal_line(model).c_str());
  }
  return 0;
}

int llm_check_command(const CommonFlags& common, const std::string& name) {
  const auto endpoint = endpoint_named(common, name);
  if (!endpoint) return report_error(common, endpoint.error());
  const LlmAnswer answer = ask(*endpoint);
  if (answer.failure) {
    print_failure(common, answer);
    return report_error(common, error_of(answer.failure));
  }
  if (common.json) {
    print_line(check_json(*endpoint, answer));
  } else {
    print_check(*endpoint, answer);
  }
  return 0;
}

int llm_prompts_command(const CommonFlags& common,
                        const std::filesystem::path& folder) {
  const auto written = write_prompt_files(folder);
  if (!written) return report_error(common, written.error());
  if (common.json) return 0;
  std::printf(
      "the prompt templates are in %s: change them, delete the others, and "
      "name the folder with --prompts\n",
      folder.c_str());
  return 0;
}

}  // namespace weft
