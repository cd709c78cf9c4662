#include "config/llm_settings.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

const Environment kNoEnvironment = [](const std::string&) { return ""; };

Result<std::vector<LlmEndpoint>> read(std::string_view toml,
                                      bool from_folder = false) {
  auto settings = parse_settings(toml, "weft.toml");
  REQUIRE(settings);
  for (auto& [name, setting] : *settings) setting.from_folder = from_folder;
  return llm_endpoints(*settings, kNoEnvironment);
}

std::string error_of(std::string_view toml, bool from_folder = false) {
  const auto endpoints = read(toml, from_folder);
  return endpoints ? "none" : endpoints.error().message;
}

TEST_CASE("a provider is declared by a section") {
  const auto endpoints = read(R"([llm.mini]
dialect = "anthropic"
base_url = "https://example.com/"
model = "c-1"
key_file = "/k"
max_output_tokens = 5000
temperature = 0.5
fallbacks = ["mini"]
headers = { x-title = "weft" }
[llm.mini.limits]
calls_at_once = 2
requests_per_minute = 60
tokens_per_minute = 100000
[llm.mini.prices]
input = 3
output = 15
)");
  REQUIRE(endpoints);
  REQUIRE(endpoints->size() == 1);
  const LlmEndpoint& endpoint = endpoints->front();
  CHECK(endpoint.base_url == "https://example.com");
  CHECK(endpoint.key_file == "/k");
  CHECK(endpoint.key_env.empty());
  CHECK(endpoint.headers.at("x-title") == "weft");
  CHECK(endpoint.provider.name == "mini");
  CHECK(endpoint.provider.dialect == "anthropic");
  CHECK(endpoint.provider.max_output_tokens == 5000);
  CHECK(endpoint.provider.temperature == 0.5);
  CHECK(endpoint.provider.limits == LlmLimits{2, 60, 100'000, 1'500});
  CHECK(endpoint.provider.prices.input == 3'000'000);
  // Not told: assumed dearer, never free.
  CHECK(endpoint.provider.prices.cached == 3'000'000);
  CHECK(endpoint.provider.prices.cache_written == 3'750'000);
  CHECK(endpoint.provider.prices.reasoning == 15'000'000);
}

TEST_CASE("the makers' own servers and keys are known") {
  const auto endpoints = read(
      "[llm.a]\ndialect = \"anthropic\"\nmodel = \"c\"\n[llm.b]\nmodel = "
      "\"g\"\n");
  REQUIRE(endpoints);
  CHECK((*endpoints)[0].base_url == "https://api.anthropic.com");
  CHECK((*endpoints)[0].key_env == "ANTHROPIC_API_KEY");
  CHECK_FALSE((*endpoints)[0].provider.native_samples);
  CHECK((*endpoints)[1].base_url == "https://api.openai.com/v1");
  CHECK((*endpoints)[1].key_env == "OPENAI_API_KEY");
  CHECK((*endpoints)[1].provider.native_samples);
}

TEST_CASE("another server is sent no key unless one is named") {
  const auto endpoints =
      read("[llm.a]\nbase_url = \"http://localhost:8000/v1\"\nmodel = \"q\"\n");
  REQUIRE(endpoints);
  CHECK(endpoints->front().key_env.empty());
  CHECK_FALSE(endpoints->front().provider.native_samples);
}

TEST_CASE("what is wrong is told with file and line") {
  const std::string good = "[llm.a]\nmodel = \"m\"\n";
  for (const auto& [line, words] : std::map<std::string, std::string>{
           {"colour = 1", "there is no colour"},
           {"dialect = \"smoke\"", "openai, anthropic or responses"},
           {"base_url = \"ftp://x\"", "https://"},
           {"base_url = \"https://u:p@x\"", "no name or password"},
           {"base_url = \"https://x?k=1\"", "no blank"},
           {"temperature = 9", "from 0 to 2"},
           {"temperature = \"warm\"", "from 0 to 2"},
           {"max_output_tokens = 1.5", "whole number"},
           {"key_env = 7", "in quotes"},
           {"plain_http = \"yes\"", "true or false"},
           {"limits.calls_at_once = 0", "from 1"},
           {"prices.input = -1", "from 0"},
           {"fallbacks = [\"b\"]", "'b'"},
           {"headers.Authorization = \"x\"", "secret"},
           {"headers.x = \"a\\nb\"", "one line"}}) {
    CAPTURE(line);
    const std::string error = error_of(good + line + "\n");
    CHECK(error.starts_with("weft.toml:3: "));
    CHECK(error.find(words) != std::string::npos);
  }
  CHECK(error_of("[llm.a]\nkey_env = \"K\"\n").find("model") !=
        std::string::npos);
  CHECK(error_of("[llm]\nmodel = \"m\"\n").starts_with("weft.toml:2: "));
  CHECK(error_of(good + "key_env = \"K\"\nkey_file = \"/k\"\n")
            .find("both set") != std::string::npos);
}

TEST_CASE("the current folder's file may not say where a key goes") {
  for (const std::string line : {"key_env = \"OPENAI_API_KEY\"",
                                 "base_url = \"https://evil/v1\"\n"
                                 "key_file = \"/k\""}) {
    const std::string toml = "[llm.a]\nmodel = \"m\"\n" + line + "\n";
    CAPTURE(toml);
    CHECK(error_of(toml) == "none");
    CHECK(error_of(toml, true).starts_with("weft.toml:3: "));
  }
  // Without a key there is nothing to lose.
  CHECK(error_of("[llm.a]\nmodel = \"m\"\nbase_url = \"http://localhost:1\"\n",
                 true) == "none");
}

TEST_CASE("a folder's file may choose the model of the user's provider") {
  auto settings = parse_settings(
      "[llm.a]\nmodel = \"m\"\nbase_url = \"https://x\"\nkey_env = \"K\"\n",
      "config.toml");
  (*settings)["llm.a.model"] = {
      Setting::Kind::text, {"n"}, "weft.toml:2", true};
  CHECK(llm_endpoints(*settings, kNoEnvironment));
  (*settings)["llm.a.base_url"] = {
      Setting::Kind::text, {"https://evil"}, "weft.toml:3", true};
  const auto endpoints = llm_endpoints(*settings, kNoEnvironment);
  REQUIRE_FALSE(endpoints);
  CHECK(endpoints.error().message.starts_with("weft.toml:3: "));
}

TEST_CASE("the environment changes a provider that is declared") {
  auto settings = parse_settings("[llm.my-gpt]\nmodel = \"m\"\n", "weft.toml");
  const auto endpoints = llm_endpoints(*settings, [](const std::string& name) {
    if (name == "WEFT_LLM_MY_GPT_MODEL") return "n";
    return name == "WEFT_LLM_MY_GPT_LIMITS_CALLS_AT_ONCE" ? "7" : "";
  });
  REQUIRE(endpoints);
  CHECK(endpoints->front().provider.model == "n");
  CHECK(endpoints->front().provider.limits.calls_at_once == 7);
}

TEST_CASE("a provider brings those that it falls back on, each once") {
  const auto endpoints = read(
      "[llm.a]\nmodel = \"1\"\nfallbacks = [\"b\", \"c\"]\n"
      "[llm.b]\nmodel = \"2\"\nfallbacks = [\"a\", \"d\"]\n"
      "[llm.c]\nmodel = \"3\"\n[llm.d]\nmodel = \"4\"\n[llm.e]\nmodel = "
      "\"5\"\n");
  REQUIRE(endpoints);
  const auto providers = providers_of(*endpoints, "a");
  REQUIRE(providers);
  std::string order;
  for (const LlmProvider& provider : *providers) order += provider.name;
  CHECK(order == "abcd");
  CHECK_FALSE(providers_of(*endpoints, "z"));
}

}  // namespace
}  // namespace weft
