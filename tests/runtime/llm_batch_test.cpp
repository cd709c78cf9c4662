#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/llm/batch.hpp"

namespace weft {
namespace {

using nlohmann::json;

LlmEndpoint endpoint_of(const std::string& dialect) {
  LlmEndpoint endpoint;
  endpoint.provider.name = "mini";
  endpoint.provider.dialect = dialect;
  endpoint.provider.model = "m-1";
  endpoint.provider.wall_ms = 26 * 3'600'000;
  endpoint.base_url = "https://example.org/v1";
  endpoint.batch = true;
  return endpoint;
}

std::vector<BatchCall> calls() {
  Prompt first;
  first.texts = {{"user", "first"}};
  first.max_tokens = 10;
  Prompt second = first;
  second.texts[0].text = "second";
  return {{"aa", first}, {"bb", second}};
}

TEST_CASE("anthropic's batch has the calls by their ids, and streams none") {
  const auto request =
      make_batch_calls(endpoint_of("anthropic"), calls(), "secret");
  CHECK(request.url == "https://example.org/v1/messages/batches");
  CHECK(request.total_ms <= 600'000);
  const json body = json::parse(request.body);
  REQUIRE(body["requests"].size() == 2);
  CHECK(body["requests"][1]["custom_id"] == "bb");
  CHECK(body["requests"][1]["params"]["max_tokens"] == 10);
  CHECK_FALSE(body["requests"][0]["params"].contains("stream"));
}

TEST_CASE("openai's batch is a form with a file, then a batch of the file") {
  const LlmEndpoint endpoint = endpoint_of("openai");
  const auto request = make_batch_calls(endpoint, calls(), "secret");
  CHECK(request.url == "https://example.org/v1/files");
  const auto at = request.body.find("{\"body\"");
  REQUIRE(at != std::string::npos);
  const json line =
      json::parse(request.body.substr(at, request.body.find('\n', at) - at));
  CHECK(line["custom_id"] == "aa");
  CHECK(line["url"] == "/v1/chat/completions");
  CHECK_FALSE(line["body"].contains("stream_options"));
  const auto start = make_batch_start(endpoint, "file-1", "secret");
  CHECK(start.url == "https://example.org/v1/batches");
  CHECK(json::parse(start.body)["input_file_id"] == "file-1");
  CHECK(json::parse(make_batch_start(endpoint_of("responses"), "f", "")
                        .body)["endpoint"] == "/v1/responses");
}

TEST_CASE("an id that could lead an address elsewhere is none") {
  for (const char* id : {"msgbatch_01-x", "batches.1:a=", "a.b"}) {
    CHECK(batch_id_in(json{{"id", id}}.dump()).value() == id);
  }
  for (const char* body :
       {R"({"id": ".."})", R"({"id": "a..b"})", R"({"id": "%2e"})",
        R"({"id": "../files"})", R"({"id": ""})", R"({"id": 7})", "[]", "",
        R"({"id": "a?b"})", R"({"id": "a b"})"}) {
    CHECK_FALSE(batch_id_in(body));
  }
}

TEST_CASE("a batch has ended at its provider's word") {
  const auto anthropic = endpoint_of("anthropic");
  const auto openai = endpoint_of("openai");
  const auto state = [](const LlmEndpoint& endpoint, const char* body) {
    return batch_state_in(endpoint, "b-1", body);
  };
  CHECK_FALSE(
      state(anthropic, R"({"processing_status": "canceling"})")->has_ended);
  const auto ended = state(anthropic, R"({"processing_status": "ended",
      "results_url": "https://elsewhere.example/x"})");
  CHECK(ended->has_ended);
  CHECK(ended->paths ==
        std::vector<std::string>{"/messages/batches/b-1/results"});
  for (const char* status : {"validating", "in_progress", "finalizing"}) {
    const json body = {{"status", status}};
    CHECK_FALSE(state(openai, body.dump().c_str())->has_ended);
  }
  const auto expired = state(openai, R"({"status": "expired",
      "output_file_id": "f-1", "error_file_id": "f-2"})");
  CHECK(expired->has_ended);
  CHECK(expired->paths.size() == 2);
  CHECK(state(openai, R"({"status": "completed", "output_file_id": "../x"})")
            ->paths.empty());
  const auto failed = state(openai, R"({"status": "failed",
      "errors": {"data": [{"message": "no such model"}]}})");
  CHECK(failed->error == "no such model");
  CHECK_FALSE(state(openai, "{}"));
  CHECK_FALSE(state(openai, "<html>"));
}

TEST_CASE("a result is what the call would have been answered") {
  const auto results = batch_results_in(endpoint_of("openai"), R"(
{"custom_id": "aa", "response": {"status_code": 200, "body": {"model": "m"}}}
not json
{"custom_id": "bb", "response": null, "error": {"code": "batch_expired"}}
{"custom_id": "cc", "response": {"status_code": 429, "body": {}}, "error": null}
{"custom_id": "dd"}
{"no": "id"})");
  REQUIRE(results.size() == 4);
  CHECK(results.at("aa").status == 200);
  CHECK(json::parse(results.at("aa").body)["model"] == "m");
  CHECK(results.at("bb").status == 408);
  CHECK(results.at("cc").status == 429);
  CHECK(results.at("dd").status == 500);
}

TEST_CASE("so it is in anthropic's words") {
  const auto results = batch_results_in(endpoint_of("anthropic"), R"(
{"custom_id": "aa", "result": {"type": "succeeded", "message": {"model": "m"}}}
{"custom_id": "bb", "result": {"type": "expired"}}
{"custom_id": "cc", "result": {"type": "errored", "error": {"type": "error",
 "error": 1}}}
{"custom_id": "dd", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "invalid_request_error", "message": "long"}}}}
{"custom_id": "ee", "result": {"type": "errored", "error": {"type": "api_error", "message": "down"}}}
{"custom_id": "ff", "result": 5})");
  CHECK(results.at("aa").status == 200);
  CHECK(results.at("bb").status == 408);
  CHECK_FALSE(results.contains("cc"));  // two lines are no line
  CHECK(results.at("dd").status == 400);
  CHECK(results.at("ee").status == 500);
  CHECK(json::parse(results.at("ee").body)["error"]["message"] == "down");
  CHECK(results.at("ff").status == 408);
}

TEST_CASE("a call without a result may be asked again, unless all failed") {
  BatchState state;
  state.has_ended = true;
  state.status = "ended";
  CHECK(missing_batch_result(state).status == 408);
  state.error = "no such model";
  const auto failed = missing_batch_result(state);
  CHECK(failed.status == 400);
  CHECK(json::parse(failed.body)["error"]["message"] == "no such model");
}

}  // namespace
}  // namespace weft
