#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/llm/key.hpp"
#include "runtime/llm/request.hpp"

namespace weft {
namespace {

using nlohmann::json;

LlmEndpoint endpoint(const std::string& dialect, const std::string& url) {
  LlmEndpoint endpoint;
  endpoint.provider.name = "mini";
  endpoint.provider.dialect = dialect;
  endpoint.provider.model = "m-1";
  endpoint.base_url = url;
  return endpoint;
}

Prompt prompt() {
  Prompt prompt;
  prompt.texts = {{"system", "rules", true},
                  {"user", "problem", true},
                  {"user", "history", false}};
  prompt.max_tokens = 1000;
  return prompt;
}

bool has(const HttpRequest& request, const std::string& header) {
  return std::ranges::find(request.headers, header) != request.headers.end();
}

TEST_CASE("chat completions: one message a turn, streamed, with usage") {
  const auto request =
      make_llm_request(endpoint("openai", "https://x/v1"), prompt(), "secret");
  CHECK(request.url == "https://x/v1/chat/completions");
  CHECK(has(request, "authorization: Bearer secret"));
  const json body = json::parse(request.body);
  CHECK(body["model"] == "m-1");
  CHECK(body["stream"] == true);
  CHECK(body["stream_options"]["include_usage"] == true);
  CHECK(body["max_tokens"] == 1000);
  CHECK_FALSE(body.contains("n"));
  CHECK_FALSE(body.contains("temperature"));
  REQUIRE(body["messages"].size() == 2);
  CHECK(body["messages"][0] ==
        json({{"role", "system"}, {"content", "rules"}}));
  CHECK(body["messages"][1]["content"] == "problem\n\nhistory");
}

TEST_CASE("chat completions: OpenAI's own server has another name for limits") {
  const auto request = make_llm_request(
      endpoint("openai", "https://api.openai.com/v1"), prompt(), "");
  CHECK(json::parse(request.body)["max_completion_tokens"] == 1000);
}

TEST_CASE("chat completions: samples only where one call can give several") {
  Prompt many = prompt();
  many.samples = 3;
  many.temperature = 0.5;
  many.effort = "low";
  LlmEndpoint native = endpoint("openai", "https://x/v1");
  CHECK_FALSE(
      json::parse(make_llm_request(native, many, "").body).contains("n"));
  native.provider.native_samples = true;
  const json body = json::parse(make_llm_request(native, many, "").body);
  CHECK(body["n"] == 3);
  CHECK(body["temperature"] == 0.5);
  CHECK(body["reasoning_effort"] == "low");
}

TEST_CASE("Anthropic: blocks with cache breakpoints, system apart") {
  for (const std::string url : {"https://x", "https://x/v1"}) {
    const auto request =
        make_llm_request(endpoint("anthropic", url), prompt(), "secret");
    CHECK(request.url == "https://x/v1/messages");
    CHECK(has(request, "x-api-key: secret"));
    CHECK(has(request, "anthropic-version: 2023-06-01"));
    const json body = json::parse(request.body);
    CHECK(body["max_tokens"] == 1000);
    CHECK(body["system"][0]["text"] == "rules");
    CHECK(body["system"][0]["cache_control"]["type"] == "ephemeral");
    REQUIRE(body["messages"].size() == 1);
    const json& blocks = body["messages"][0]["content"];
    REQUIRE(blocks.size() == 2);
    CHECK(blocks[0].contains("cache_control"));
    CHECK_FALSE(blocks[1].contains("cache_control"));
  }
}

TEST_CASE("Anthropic: no more than four breakpoints") {
  Prompt many;
  for (int i = 0; i < 6; ++i) many.texts.push_back({"user", "x", true});
  const std::string body =
      make_llm_request(endpoint("anthropic", "https://x"), many, "").body;
  int breakpoints = 0;
  for (auto at = body.find("cache_control"); at != std::string::npos;
       at = body.find("cache_control", at + 1)) {
    ++breakpoints;
  }
  CHECK(breakpoints == 4);
}

TEST_CASE("responses: nothing is stored at the provider") {
  Prompt thought = prompt();
  thought.effort = "high";
  const auto request =
      make_llm_request(endpoint("responses", "https://x/v1"), thought, "k");
  CHECK(request.url == "https://x/v1/responses");
  const json body = json::parse(request.body);
  CHECK(body["store"] == false);
  CHECK(body["max_output_tokens"] == 1000);
  CHECK(body["reasoning"]["effort"] == "high");
  CHECK_FALSE(body.contains("previous_response_id"));
}

TEST_CASE("a prompt with wrong bytes is sent all the same") {
  Prompt odd;
  odd.texts = {{"user", "a\xFFz", false}};
  const auto request =
      make_llm_request(endpoint("openai", "https://x/v1"), odd, "");
  CHECK(json::parse(request.body)["messages"][0]["content"] ==
        "a\xEF\xBF\xBDz");
}

TEST_CASE("a key is taken out of texts, a placeholder is not") {
  CHECK(without_key("wrong key sk-12345678!", "sk-12345678") ==
        "wrong key [key]!");
  CHECK(without_key("sk-12345678sk-12345678", "sk-12345678") == "[key][key]");
  CHECK(without_key("the ollama server", "ollama") == "the ollama server");
  CHECK(without_key("anything", "") == "anything");
}

TEST_CASE("a key that lacks says where it should be") {
  LlmEndpoint to = endpoint("openai", "https://x/v1");
  to.key_env = "WEFT_TEST_NO_SUCH_VARIABLE";
  const auto key = read_key(to);
  REQUIRE_FALSE(key);
  CHECK(key.error().code == ErrorCode::missing);
  CHECK(key.error().message.find("WEFT_TEST_NO_SUCH_VARIABLE") !=
        std::string::npos);
  to.key_env.clear();
  to.key_file = "/nowhere/key";
  CHECK(read_key(to).error().message.find("/nowhere/key") != std::string::npos);
  to.key_file.clear();
  CHECK(read_key(to) == "");
}

TEST_CASE("a key with a line break could write headers, and is refused") {
  LlmEndpoint to = endpoint("openai", "https://x/v1");
  to.key_env = "WEFT_TEST_KEY";
  setenv("WEFT_TEST_KEY", "abc\r\nx-evil: 1", 1);
  const auto key = read_key(to);
  REQUIRE_FALSE(key);
  CHECK(key.error().message.find("evil") == std::string::npos);
  setenv("WEFT_TEST_KEY", "  abc\n", 1);
  CHECK(read_key(to) == "abc");
  unsetenv("WEFT_TEST_KEY");
}

TEST_CASE("a key goes over plain http to this machine only") {
  CHECK(check_key_use(endpoint("openai", "http://127.0.0.1:80/v1"), "k"));
  CHECK(check_key_use(endpoint("openai", "http://localhost/v1"), "k"));
  CHECK(check_key_use(endpoint("openai", "https://x/v1"), "k"));
  CHECK(check_key_use(endpoint("openai", "http://x/v1"), ""));
  for (const char* url : {"http://127.evil.example/v1", "http://localhost.x/",
                          "http://127.0.0.1.x/v1"}) {
    CHECK_FALSE(check_key_use(endpoint("openai", url), "k"));
  }
  LlmEndpoint plain = endpoint("openai", "http://x/v1");
  CHECK_FALSE(check_key_use(plain, "k"));
  plain.plain_http = true;
  CHECK(check_key_use(plain, "k"));
}

}  // namespace
}  // namespace weft
