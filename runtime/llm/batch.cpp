#include "runtime/llm/batch.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "messages/parse_json.hpp"
#include "runtime/llm/json_fields.hpp"
#include "runtime/llm/reply_reader.hpp"
#include "runtime/llm/request.hpp"
#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr int kOk = 200;
constexpr int kBadRequest = 400;
constexpr int kTimedOut = 408;
constexpr int kServerError = 500;

/// The results of a batch are held in memory.
constexpr std::int64_t kResultsBytesMax = std::int64_t{1} << 30;

/// One request of a batch takes no longer, however long the batch does.
constexpr std::int64_t kRequestMs = 600'000;

HttpRequest batch_request(const LlmEndpoint& endpoint, std::string_view path,
                          std::string_view key) {
  HttpRequest request = to_endpoint(endpoint, path, key);
  request.total_ms = kRequestMs;
  request.idle_ms = kRequestMs;  // while calls are sent, no byte comes
  return request;
}

HttpRequest with_json(HttpRequest request, const json& body) {
  request.headers.push_back("content-type: application/json");
  request.body = body.dump();
  return request;
}

json error_body(const std::string& message) {
  return {{"error", {{"message", message}}}};
}

std::string file_of_calls(const LlmEndpoint& endpoint,
                          const std::vector<BatchCall>& calls) {
  std::string lines;
  for (const BatchCall& call : calls) {
    const json line = {{"custom_id", call.id},
                       {"method", "POST"},
                       {"url", "/v1" + std::string(call_path(endpoint))},
                       {"body", llm_body(endpoint, call.prompt, false)}};
    lines += line.dump() + "\n";
  }
  return lines;
}

/// A form with a field and a file, which does not contain "--weft-" and `id`.
HttpRequest with_form(HttpRequest request, const std::string& file,
                      const std::string& id) {
  const std::string boundary = "weft-" + id;
  const auto part = [&](const std::string& about, const std::string& content) {
    return "--" + boundary + "\r\ncontent-disposition: form-data; " + about +
           "\r\n\r\n" + content + "\r\n";
  };
  request.headers.push_back("content-type: multipart/form-data; boundary=" +
                            boundary);
  request.body = part("name=\"purpose\"", "batch") +
                 part(
                     "name=\"file\"; filename=\"calls.jsonl\"\r\n"
                     "content-type: application/jsonl",
                     file) +
                 "--" + boundary + "--\r\n";
  return request;
}

/// OpenAI's line: a response, or an error in its place.
BatchResult openai_result(const json& line) {
  const json& response = object_in(line, "response");
  const auto status = response.find("status_code");
  if (status != response.end() && status->is_number_integer()) {
    return {status->get<int>(), object_in(response, "body").dump()};
  }
  const auto error = error_in(line);
  const std::string code = error ? error->code : "";
  const bool is_late = code.contains("expired") || code.contains("cancel");
  return {is_late ? kTimedOut : kServerError,
          error_body(error ? error->message : "there is no response").dump()};
}

BatchResult anthropic_result(const json& line) {
  const json& result = object_in(line, "result");
  const std::string type = text_in(result, "type");
  if (type == "succeeded") return {kOk, object_in(result, "message").dump()};
  if (type != "errored") {
    return {kTimedOut, error_body("the call is " + type).dump()};
  }
  json body = object_in(result, "error");
  // {"type": "error", "error": {…}}, or the inner object alone.
  if (!body.contains("error")) body = {{"error", body}};
  const bool is_wrong =
      text_in(object_in(body, "error"), "type").contains("invalid");
  return {is_wrong ? kBadRequest : kServerError, body.dump()};
}

std::string errors_of(const json& batch) {
  std::string all;
  for (const json& error : list_in(object_in(batch, "errors"), "data")) {
    const std::string text = text_in(error, "message");
    if (!text.empty()) all += (all.empty() ? "" : "; ") + text;
  }
  return all;
}

bool has_ended(const std::string& status) {
  return status == "ended" || status == "completed" || status == "failed" ||
         status == "expired" || status == "cancelled";
}

}  // namespace

HttpRequest make_batch_calls(const LlmEndpoint& endpoint,
                             const std::vector<BatchCall>& calls,
                             std::string_view key) {
  if (has_batch_file(endpoint)) {
    return with_form(batch_request(endpoint, "/files", key),
                     file_of_calls(endpoint, calls), calls.front().id);
  }
  json requests = json::array();
  for (const BatchCall& call : calls) {
    requests.push_back({{"custom_id", call.id},
                        {"params", llm_body(endpoint, call.prompt, false)}});
  }
  return with_json(batch_request(endpoint, "/messages/batches", key),
                   {{"requests", std::move(requests)}});
}

bool has_batch_file(const LlmEndpoint& endpoint) {
  return endpoint.provider.dialect != "anthropic";
}

HttpRequest make_batch_start(const LlmEndpoint& endpoint,
                             const std::string& file, std::string_view key) {
  return with_json(batch_request(endpoint, "/batches", key),
                   {{"input_file_id", file},
                    {"endpoint", "/v1" + std::string(call_path(endpoint))},
                    {"completion_window", "24h"}});
}

HttpRequest make_batch_look(const LlmEndpoint& endpoint,
                            const std::string& batch, std::string_view key) {
  const std::string folder =
      has_batch_file(endpoint) ? "/batches/" : "/messages/batches/";
  return batch_request(endpoint, folder + batch, key);
}

bool is_batch_id(std::string_view text) {
  constexpr std::size_t kBytesMax = 256;
  return !text.empty() && text.size() <= kBytesMax && !text.contains("..") &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 ||
                  std::string_view("-_.:=").contains(static_cast<char>(c));
         });
}

Result<std::string> batch_id_in(std::string_view body) {
  std::string id = text_in(parse_json(repaired_utf8(body)), "id");
  if (is_batch_id(id)) return id;
  return fail(ErrorCode::wrong_input, "the reply to a batch has no usable id");
}

Result<BatchState> batch_state_in(const LlmEndpoint& endpoint,
                                  const std::string& batch,
                                  std::string_view body) {
  const json told = parse_json(repaired_utf8(body));
  BatchState state;
  if (!has_batch_file(endpoint)) {
    state.status = text_in(told, "processing_status");
    // Not the reply's own results_url: the key goes to base_url alone.
    state.paths = {"/messages/batches/" + batch + "/results"};
  } else {
    state.status = text_in(told, "status");
    for (const char* name : {"output_file_id", "error_file_id"}) {
      const std::string file = text_in(told, name);
      if (is_batch_id(file))
        state.paths.push_back("/files/" + file + "/content");
    }
    if (state.status == "failed") {
      state.error = errors_of(told);
      if (state.error.empty()) state.error = "the batch failed";
    }
  }
  if (state.status.empty()) {
    return fail(ErrorCode::failed, "the reply does not tell the batch's state");
  }
  state.has_ended = has_ended(state.status);
  return state;
}

HttpRequest make_batch_results(const LlmEndpoint& endpoint,
                               const std::string& path, std::size_t calls,
                               std::string_view key) {
  HttpRequest request = batch_request(endpoint, path, key);
  const auto count = static_cast<std::int64_t>(calls);
  request.reply_bytes_max =
      endpoint.reply_bytes_max >
              kResultsBytesMax / std::max<std::int64_t>(1, count)
          ? kResultsBytesMax
          : endpoint.reply_bytes_max * count;
  return request;
}

std::map<std::string, BatchResult> batch_results_in(const LlmEndpoint& endpoint,
                                                    std::string_view body) {
  std::map<std::string, BatchResult> results;
  const std::string text = repaired_utf8(body);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const json line = parse_json(std::string_view(text).substr(at, end - at));
    at = end + 1;
    const std::string id = text_in(line, "custom_id");
    if (id.empty()) continue;
    results[id] =
        has_batch_file(endpoint) ? openai_result(line) : anthropic_result(line);
  }
  return results;
}

BatchResult missing_batch_result(const BatchState& state) {
  if (!state.error.empty()) {
    return {kBadRequest, error_body(state.error).dump()};
  }
  return {kTimedOut, error_body("the batch is " + state.status +
                                " and has no answer to this call")
                         .dump()};
}

}  // namespace weft
