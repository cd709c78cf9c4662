#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/llm/batch.hpp"
#include "runtime/machine/files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
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
  for (const json& id :
       {json(".."), json("a..b"), json("%2e"), json("../files"), json(""),
        json(7), json("a?b"), json("a b")}) {
    CHECK_FALSE(batch_id_in(json{{"id", id}}.dump()));
  }
  CHECK_FALSE(batch_id_in("[]"));
  CHECK_FALSE(batch_id_in(""));
}

TEST_CASE("a batch has ended at its provider's word") {
  const auto anthropic = endpoint_of("anthropic");
  const auto openai = endpoint_of("openai");
  const auto state = [](const LlmEndpoint& endpoint, const json& body) {
    return batch_state_in(endpoint, "b-1", body.dump());
  };
  CHECK_FALSE(
      state(anthropic, {{"processing_status", "canceling"}})->has_ended);
  const auto ended =
      state(anthropic, {{"processing_status", "ended"},
                        {"results_url", "https://elsewhere.example/x"}});
  CHECK(ended->has_ended);
  CHECK(ended->paths ==
        std::vector<std::string>{"/messages/batches/b-1/results"});
  for (const char* status : {"validating", "in_progress", "finalizing"}) {
    CHECK_FALSE(state(openai, {{"status", status}})->has_ended);
  }
  const auto expired = state(openai, {{"status", "expired"},
                                      {"output_file_id", "f-1"},
                                      {"error_file_id", "f-2"}});
  CHECK(expired->has_ended);
  CHECK(expired->paths.size() == 2);
  const auto elsewhere =
      state(openai, {{"status", "completed"}, {"output_file_id", "../x"}});
  CHECK(elsewhere->paths.empty());
  const json errors = {{"data", {{{"message", "no such model"}}}}};
  const auto failed = state(openai, {{"status", "failed"}, {"errors", errors}});
  CHECK(failed->error == "no such model");
  CHECK_FALSE(state(openai, json::object()));
  CHECK_FALSE(batch_state_in(openai, "b-1", "<html>"));
}

/// That dialect's results of tests/runtime/data.
std::map<std::string, BatchResult> results_of(const std::string& dialect) {
  const auto text = read_file(fs::path(WEFT_TEST_DATA) /
                              ("batch_results_" + dialect + ".jsonl"));
  REQUIRE(text);
  return batch_results_in(endpoint_of(dialect), *text);
}

TEST_CASE("a result is what the call would have been answered") {
  const auto results = results_of("openai");
  REQUIRE(results.size() == 4);
  CHECK(results.at("aa").status == 200);
  CHECK(json::parse(results.at("aa").body)["model"] == "m");
  CHECK(results.at("bb").status == 408);
  CHECK(results.at("cc").status == 429);
  CHECK(results.at("dd").status == 500);
}

TEST_CASE("so it is in anthropic's words") {
  const auto results = results_of("anthropic");
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
