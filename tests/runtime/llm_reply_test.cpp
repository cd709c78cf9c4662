#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/llm/reply_reader.hpp"
#include "runtime/llm/utf8.hpp"

namespace weft {
namespace {

std::unique_ptr<ReplyReader> read(std::string_view dialect,
                                  std::string_view stream) {
  auto reader = make_reply_reader(dialect);
  SseParser parser;
  parser.feed(stream, [&](const SseEvent& e) { reader->take_event(e); });
  parser.finish([&](const SseEvent& e) { reader->take_event(e, true); });
  return reader;
}

std::unique_ptr<ReplyReader> read_whole(std::string_view dialect,
                                        std::string_view body) {
  auto reader = make_reply_reader(dialect);
  reader->take_whole(body);
  return reader;
}

LlmUsage used(std::int64_t input, std::int64_t cached, std::int64_t written,
              std::int64_t output, std::int64_t reasoning) {
  return {input, cached, written, output, reasoning, true};
}

TEST_CASE("chat completions: deltas are joined, usage comes without choices") {
  const auto reader = read("openai", R"sse(
data: {"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant"}}]}

data: {"choices":[{"index":0,"delta":{"content":"a [DONE]"}}]}

data: {"choices":[{"index":0,"delta":{"content":" b"},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":10}}}

data: [DONE]

)sse");
  REQUIRE(reader->texts().size() == 1);
  CHECK(reader->texts()[0].text == "a [DONE] b");
  CHECK(reader->texts()[0].finish_reason == "stop");
  CHECK(reader->model() == "m-1");
  CHECK(reader->ended());
  CHECK(reader->usage() == used(40, 60, 0, 20, 10));
}

TEST_CASE("chat completions: samples are told apart by their index") {
  const auto reader = read("openai", R"sse(
data: {"choices":[{"index":1,"delta":{"content":"two"},"finish_reason":"length"}]}

data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}]}
)sse");
  REQUIRE(reader->texts().size() == 2);
  CHECK(reader->texts()[0].text == "one");
  CHECK(reader->texts()[1].text == "two");
  CHECK(reader->texts()[1].finish_reason == "length");
  CHECK_FALSE(reader->ended());
}

TEST_CASE("chat completions: usage glued to the last piece counts") {
  const auto reader = read("openai",
                           "data: {\"choices\":[{\"index\":0,\"delta\":{"
                           "\"content\":\"x\"},\"finish_reason\":\"stop\"}],"
                           "\"usage\":{\"prompt_tokens\":7,"
                           "\"completion_tokens\":1,"
                           "\"prompt_tokens_details\":null}}\n\n");
  CHECK(reader->usage() == used(7, 0, 0, 1, 0));
}

TEST_CASE("chat completions: what is thought aloud is no part of the answer") {
  const auto reader = read("openai",
                           "data: {\"choices\":[{\"index\":0,\"delta\":{"
                           "\"reasoning_content\":\"hm\"}}]}\n\n");
  CHECK(reader->begun());
  CHECK(reader->texts()[0].text.empty());
}

TEST_CASE("chat completions: a refusal is a finish reason") {
  const auto reader = read("openai",
                           "data: {\"choices\":[{\"index\":0,\"delta\":{"
                           "\"refusal\":\"no\"}}]}\n\n"
                           "data: {\"choices\":[{\"index\":0,\"delta\":{},"
                           "\"finish_reason\":\"stop\"}]}\n\n");
  CHECK(reader->texts()[0].finish_reason == "refusal");
}

TEST_CASE("chat completions: OpenRouter tells the cost in dollars") {
  const auto reader = read("openai",
                           "data: {\"choices\":[],\"usage\":{"
                           "\"prompt_tokens\":1,\"cost\":0.0025}}\n\n");
  CHECK(reader->reported_micro_usd() == 2500);
}

TEST_CASE("chat completions: an error in a data line is the reply's") {
  const auto reader =
      read("openai",
           "data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\","
           "\"code\":503}}\n\n");
  REQUIRE(reader->error());
  CHECK(reader->error()->message == "busy");
  CHECK(reader->error()->code == "503");
}

TEST_CASE("chat completions: a server that does not stream is understood") {
  const auto reader = read_whole(
      "openai",
      R"({"model":"m","choices":[{"index":0,"message":{"content":"k"},
          "finish_reason":"stop"}],
          "usage":{"prompt_tokens":3,"completion_tokens":4}})");
  CHECK(reader->texts()[0].text == "k");
  CHECK(reader->ended());
  CHECK(reader->usage() == used(3, 0, 0, 4, 0));
}

TEST_CASE("Anthropic: cached tokens are not contained in the input") {
  const auto reader = read("anthropic", R"sse(
event: message_start
data: {"type":"message_start","message":{"model":"c-1","usage":{"input_tokens":10,"cache_creation_input_tokens":500,"cache_read_input_tokens":2000,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ker"}}

event: something_new
data: {"type":"something_new"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"nel"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":25}}

event: message_stop
data: {"type":"message_stop"}

)sse");
  CHECK(reader->texts()[0].text == "kernel");
  CHECK(reader->texts()[0].finish_reason == "stop");
  CHECK(reader->model() == "c-1");
  CHECK(reader->ended());
  CHECK(reader->usage() == used(10, 2000, 500, 25, 0));
}

TEST_CASE("Anthropic: of a reply that broke off, the tokens are not known") {
  const auto reader =
      read("anthropic",
           "data: {\"type\":\"message_start\",\"message\":{\"usage\":{"
           "\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
           "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":"
           "\"text_delta\",\"text\":\"ker\"}}\n\n");
  CHECK_FALSE(reader->usage().known);
  CHECK_FALSE(reader->ended());
  CHECK(reader->begun());
}

TEST_CASE("Anthropic: stop reasons have one name in all dialects") {
  for (const auto& [theirs, ours] : std::map<std::string, std::string>{
           {"end_turn", "stop"},
           {"stop_sequence", "stop"},
           {"max_tokens", "length"},
           {"model_context_window_exceeded", "length"},
           {"refusal", "refusal"},
           {"pause_turn", "pause_turn"}}) {
    CAPTURE(theirs);
    const auto reader =
        read("anthropic",
             "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" +
                 theirs + "\"}}\n\n");
    CHECK(reader->texts()[0].finish_reason == ours);
  }
}

TEST_CASE("Anthropic: an error event is an error") {
  const auto reader =
      read("anthropic",
           "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
           "\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n");
  REQUIRE(reader->error());
  CHECK(reader->error()->type == "overloaded_error");
}

TEST_CASE("responses: text, and the usage of the last event") {
  const auto reader = read("responses", R"sse(
data: {"type":"response.created","response":{"status":"in_progress"}}

data: {"type":"response.reasoning_summary_text.delta","delta":"hm"}

data: {"type":"response.output_text.delta","delta":"ker"}

data: {"type":"response.output_text.delta","delta":"nel"}

data: {"type":"response.completed","response":{"model":"g","status":"completed","error":null,"usage":{"input_tokens":50,"output_tokens":20,"input_tokens_details":{"cached_tokens":32},"output_tokens_details":{"reasoning_tokens":15}}}}
)sse");
  CHECK(reader->texts()[0].text == "kernel");
  CHECK(reader->texts()[0].finish_reason == "stop");
  CHECK(reader->ended());
  CHECK_FALSE(reader->error());
  CHECK(reader->usage() == used(18, 32, 0, 5, 15));
}

TEST_CASE("responses: incomplete is a length, failed an error") {
  const auto cut = read(
      "responses",
      R"(data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}})");
  CHECK(cut->texts()[0].finish_reason == "length");
  const auto failed = read(
      "responses",
      R"(data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oh"}}})");
  REQUIRE(failed->error());
  CHECK(failed->error()->message == "oh");
}

TEST_CASE("what is no JSON is told, unless the stream broke off in it") {
  CHECK_FALSE(read("openai", "data: {\"choices\n\n")->malformed().empty());
  CHECK(read("openai", "data: {\"choices")->malformed().empty());
  CHECK_FALSE(read("openai", "data: 17\n\n")->malformed().empty());
}

TEST_CASE("fields of another type than they should have are as if absent") {
  for (const std::string_view dialect : {"openai", "anthropic", "responses"}) {
    for (const std::string_view data :
         {R"({"choices":17,"usage":"x","model":3})",
          R"({"choices":[17,null,{"index":"x","delta":7}]})",
          R"({"choices":[{"index":1e300,"delta":{"content":"x"}}]})",
          R"({"choices":[{"index":-4,"delta":{"content":["x"]}}]})",
          R"({"type":3,"delta":[],"message":1,"usage":{"input_tokens":"9"}})",
          R"({"type":"message_start","message":{"usage":[]}})",
          R"({"type":"response.completed","response":[]})",
          R"({"usage":{"prompt_tokens":-5,"completion_tokens":1e99}})"}) {
      CAPTURE(dialect);
      CAPTURE(data);
      const auto reader = read(dialect, "data: " + std::string(data) + "\n\n");
      CHECK(reader->malformed().empty());
      CHECK(reader->usage().output == 0);
      read_whole(dialect, data);
    }
  }
}

TEST_CASE("errors are found in the shapes that servers use") {
  const auto message = [](std::string_view body) {
    const auto error = error_in(nlohmann::json::parse(body));
    return error ? error->message : "none";
  };
  CHECK(message(R"({"error":{"message":"a"}})") == "a");
  CHECK(message(R"({"error":"b"})") == "b");
  CHECK(message(R"({"object":"error","message":"c"})") == "c");
  CHECK(message(R"({"detail":"d"})") == "d");
  CHECK(message(R"({"type":"error","error":{"message":"e"}})") == "e");
  CHECK(message(R"({"error":null,"choices":[]})") == "none");
  CHECK(message(R"([1])") == "none");
}

TEST_CASE("wrong bytes become replacement characters, right ones stay") {
  CHECK(repaired_utf8("plain \xC3\xA4 \xF0\x9F\xA7\xB5") ==
        "plain \xC3\xA4 \xF0\x9F\xA7\xB5");
  CHECK(repaired_utf8("a\xE4z") == "a\xEF\xBF\xBDz");
  CHECK(repaired_utf8("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(repaired_utf8("\xED\xA0\x80") ==
        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(repaired_utf8("\xF0\x9F") == "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("cost counts each kind of token at its own price, rounded up") {
  LlmPrices prices;
  prices.input = 3'000'000;
  prices.cached = 300'000;
  prices.cache_written = 3'750'000;
  prices.output = 15'000'000;
  prices.reasoning = 10'000'000;
  CHECK(cost_of(used(1000, 0, 0, 0, 0), prices) == 3000);
  CHECK(cost_of(used(0, 1000, 0, 0, 0), prices) == 300);
  CHECK(cost_of(used(0, 0, 1000, 0, 0), prices) == 3750);
  CHECK(cost_of(used(0, 0, 0, 1000, 100), prices) == 16'000);
  CHECK(cost_of(used(0, 1, 0, 0, 0), prices) == 1);
  CHECK(cost_of({}, prices) == 0);
}

}  // namespace
}  // namespace weft
