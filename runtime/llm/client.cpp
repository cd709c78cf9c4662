#include "runtime/llm/client.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "runtime/llm/classify.hpp"
#include "runtime/llm/key.hpp"
#include "runtime/llm/limits.hpp"
#include "runtime/llm/reply_reader.hpp"
#include "runtime/llm/request.hpp"
#include "runtime/llm/sse.hpp"
#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t epoch_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr int kOk = 200;
constexpr int kRedirects = 300;

/// Of a reply that is not understood, so much is shown.
constexpr std::size_t kShownBytes = 120;
/// Of a name that the server gives: the journal holds it.
constexpr std::size_t kNameBytesMax = 256;

/// The text's beginning.
std::string beginning_of(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  return repaired_utf8(std::string_view(text).substr(0, bytes_max)) + "…";
}

/// Before anything is cut off, or a part of the key would stay.
std::optional<ServerError> error_without_key(std::optional<ServerError> error,
                                             std::string_view key) {
  if (!error) return error;
  for (std::string* text : {&error->type, &error->code, &error->message}) {
    *text = without_key(std::move(*text), key);
  }
  return error;
}

/// One call: what has come of its reply.
struct Exchange {
  LlmEndpoint endpoint;
  std::string key;
  LlmClient::OnAnswer on_answer;
  std::unique_ptr<ReplyReader> reader;
  SseParser sse;
  std::string body;  ///< of an error, or of a server that does not stream
  bool streams = false;
  bool has_bytes = false;
  Clock::time_point began = Clock::now();
  std::int64_t first_token_ms = 0;

  HttpClient::Next take(const HttpHead& head, std::string_view bytes);
  void end(const HttpEnd& http);

 private:
  void read_rest();
  Classified judge(const HttpEnd& http) const;
  void clean(LlmAnswer& answer) const;
};

bool is_ok(const HttpHead& head) {
  return head.status >= kOk && head.status < kRedirects;
}

std::string header(const HttpHead& head, const char* name) {
  const auto found = head.headers.find(name);
  return found == head.headers.end() ? "" : found->second;
}

HttpClient::Next Exchange::take(const HttpHead& head, std::string_view bytes) {
  if (!has_bytes) {
    has_bytes = true;
    // Some servers stream under another name: only JSON is taken for whole.
    streams = is_ok(head) &&
              !header(head, "content-type").starts_with("application/json");
  }
  if (!streams) {
    body += bytes;
    return HttpClient::Next::more;
  }
  const auto on_event = [this](const SseEvent& event) {
    reader->take_event(event);
  };
  sse.feed(bytes, on_event);
  if (first_token_ms == 0 && reader->begun()) {
    first_token_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                         Clock::now() - began)
                         .count();
  }
  return reader->ended() || reader->error() ? HttpClient::Next::enough
                                            : HttpClient::Next::more;
}

void Exchange::read_rest() {
  if (streams) {
    sse.finish(
        [this](const SseEvent& event) { reader->take_event(event, true); });
  } else if (!body.empty()) {
    reader->take_whole(body);
  }
}

/// Whether nothing of the answer lacks: the stream's own end has come, or that
/// of every sample (some servers leave the former out, some the latter).
bool is_whole(const ReplyReader& reader) {
  if (reader.error() || !reader.malformed().empty()) return false;
  if (reader.texts().empty()) return false;
  return reader.ended() ||
         std::ranges::none_of(reader.texts(), [](const AnswerText& text) {
           return text.finish_reason.empty();
         });
}

Classified Exchange::judge(const HttpEnd& http) const {
  const std::string who = endpoint.provider.name;
  // A reply that is all there counts, however the connection ended.
  const bool whole = is_ok(http.head) && is_whole(*reader);
  if (whole && http.kind != HttpEnd::Kind::cancelled) return {};
  if (http.kind != HttpEnd::Kind::done && !reader->error()) {
    return classify_transport(endpoint, http);
  }
  const auto error = error_without_key(reader->error(), key);
  if (!is_ok(http.head)) {
    return classify_error(endpoint, http.head, error, epoch_ms());
  }
  if (error) {
    return classify_stream_error(endpoint, http.head, *error, epoch_ms());
  }
  const std::string type = header(http.head, "content-type");
  if (type.starts_with("text/html")) {
    return {{"wrong_input", who + " answers with a web page; check base_url (" +
                                endpoint.base_url + ") of [llm." + who + "]"},
            -1,
            false};
  }
  std::string why = who + ": the reply ";
  if (!reader->malformed().empty()) {
    why += "is not to be understood: " +
           beginning_of(without_key(reader->malformed(), key), kShownBytes);
  } else if (!has_bytes) {
    why += "is empty";
  } else {
    why += "ended before the answer did";
  }
  return {{"failed", why}, -1, true};
}

void Exchange::clean(LlmAnswer& answer) const {
  answer.failure.message =
      repaired_utf8(without_key(answer.failure.message, key));
  answer.model = beginning_of(without_key(answer.model, key), kNameBytesMax);
  answer.request_id = beginning_of(
      repaired_utf8(without_key(answer.request_id, key)), kNameBytesMax);
  for (AnswerText& text : answer.texts) {
    text.text = without_key(std::move(text.text), key);
    text.finish_reason = beginning_of(
        without_key(std::move(text.finish_reason), key), kNameBytesMax);
    if (text.finish_reason.empty()) text.finish_reason = "stop";
  }
}

std::string request_id_of(const HttpHead& head) {
  for (const char* name : {"x-request-id", "request-id", "x-litellm-call-id"}) {
    std::string id = header(head, name);
    if (!id.empty()) return id;
  }
  return "";
}

/// LiteLLM's word on what a call cost, in dollars; streams cannot have it.
std::int64_t told_cost(const HttpHead& head) {
  const std::string text = header(head, "x-litellm-response-cost");
  if (text.empty()) return -1;
  const double usd = std::atof(text.c_str());
  constexpr double kUsdMax = 1e6;
  return usd > 0 && usd < kUsdMax ? std::llround(usd * 1e6) : -1;
}

void Exchange::end(const HttpEnd& http) {
  read_rest();
  const Classified verdict = judge(http);
  LlmAnswer answer;
  answer.failure = verdict.failure;
  answer.retry_after_ms = verdict.retry_after_ms;
  answer.billed_maybe = verdict.billed_maybe;
  if (!answer.failure) answer.texts = reader->texts();
  answer.usage = reader->usage();
  answer.reported_micro_usd = reader->reported_micro_usd() >= 0
                                  ? reader->reported_micro_usd()
                                  : told_cost(http.head);
  answer.model = reader->model();
  answer.request_id = request_id_of(http.head);
  answer.limits = limits_of(http.head.headers, epoch_ms());
  answer.http_status = http.head.status;
  answer.latency_ms = http.total_ms;
  // Two clocks: theirs begins when the call is taken up.
  answer.first_token_ms = std::min(first_token_ms, http.total_ms);
  clean(answer);
  on_answer(std::move(answer));
}

LlmAnswer refused(const Error& error) {
  LlmAnswer answer;
  answer.failure = to_failure(error);
  return answer;
}

std::vector<std::string> model_names(const std::string& body) {
  std::vector<std::string> names;
  const auto list = parse_json(repaired_utf8(body));
  if (!list.is_object() || !list.contains("data")) return names;
  for (const auto& model : list["data"]) {
    if (!model.is_object()) continue;
    const auto id = model.find("id");
    if (id != model.end() && id->is_string()) names.push_back(*id);
  }
  return names;
}

}  // namespace

LlmAnswer whole_answer(const LlmEndpoint& endpoint, const std::string& key,
                       const HttpEnd& end, std::string_view body) {
  LlmAnswer answer;
  Exchange exchange;
  exchange.endpoint = endpoint;
  exchange.key = key;
  exchange.on_answer = [&](LlmAnswer given) { answer = std::move(given); };
  exchange.reader = make_reply_reader(endpoint.provider.dialect);
  exchange.body = body;
  exchange.has_bytes = !body.empty();
  exchange.end(end);
  return answer;
}

LlmClient::Id LlmClient::ask(const LlmEndpoint& endpoint, const Prompt& prompt,
                             OnAnswer on_answer) {
  const auto key = usable_key(endpoint);
  if (!key) {
    on_answer(refused(key.error()));
    return 0;
  }
  auto exchange = std::make_shared<Exchange>();
  exchange->endpoint = endpoint;
  exchange->key = *key;
  exchange->on_answer = std::move(on_answer);
  exchange->reader = make_reply_reader(endpoint.provider.dialect);
  return http_.start(make_llm_request(endpoint, prompt, *key),
                     {[exchange](const HttpHead& head, std::string_view bytes) {
                        return exchange->take(head, bytes);
                      },
                      [exchange](const HttpEnd& end) { exchange->end(end); }});
}

LlmClient::Id LlmClient::list_models(const LlmEndpoint& endpoint,
                                     OnModels on_models) {
  const auto key = usable_key(endpoint);
  if (!key) {
    on_models(refused(key.error()), {});
    return 0;
  }
  auto body = std::make_shared<std::string>();
  auto on_body = [body](const HttpHead&, std::string_view bytes) {
    *body += bytes;
    return HttpClient::Next::more;
  };
  auto on_end = [body, endpoint, key = *key,
                 on_models = std::move(on_models)](const HttpEnd& end) {
    LlmAnswer answer;
    answer.http_status = end.head.status;
    answer.latency_ms = end.total_ms;
    std::vector<std::string> names;
    if (end.kind != HttpEnd::Kind::done) {
      answer.failure = classify_transport(endpoint, end).failure;
    } else if (!is_ok(end.head)) {
      const auto parsed = parse_json(repaired_utf8(*body));
      answer.failure =
          classify_error(endpoint, end.head,
                         error_without_key(error_in(parsed), key), epoch_ms())
              .failure;
    } else {
      names = model_names(*body);
    }
    answer.failure.message = without_key(answer.failure.message, key);
    for (std::string& name : names) name = without_key(name, key);
    on_models(std::move(answer), std::move(names));
  };
  return http_.start(make_models_request(endpoint, *key),
                     {std::move(on_body), std::move(on_end)});
}

}  // namespace weft
