#include <doctest/doctest.h>

#include "runtime/llm/classify.hpp"

namespace weft {
namespace {

LlmEndpoint endpoint() {
  LlmEndpoint endpoint;
  endpoint.provider.name = "mini";
  endpoint.provider.model = "m-1";
  endpoint.base_url = "https://api.example.com/v1";
  endpoint.key_env = "MINI_KEY";
  return endpoint;
}

Classified answered(int status, const ServerError& error,
                    HttpHeaders headers = {}) {
  return classify_error(endpoint(), {status, std::move(headers)}, error, 0);
}

std::string code(int status, const ServerError& error,
                 HttpHeaders headers = {}) {
  return answered(status, error, std::move(headers)).failure.code;
}

TEST_CASE("what no money or quota is left for is never tried again") {
  CHECK(code(402, {}) == "quota");
  CHECK(code(429, {"insufficient_quota", "insufficient_quota", "x"}) ==
        "quota");
  CHECK(code(429, {"requests", "rate_limit_exceeded",
                   "Rate limit reached on requests per day (RPD)"}) == "quota");
  CHECK(code(429, {"budget_exceeded", "400",
                   "Budget has been exceeded! Current cost: 2"}) == "quota");
  CHECK(code(400, {"invalid_request_error", "",
                   "Your credit balance is too low to access the API"}) ==
        "quota");
  CHECK(code(403, {"billing_error", "", ""}) == "quota");
  CHECK(code(429, {"", "429", "Rate limit exceeded: free-models-per-day"}) ==
        "quota");
}

TEST_CASE("a rate limit is waited for as long as the server says") {
  const auto soon = answered(429, {"rate_limit_error", "", "slow down"},
                             {{"retry-after", "3"}});
  CHECK(soon.failure.code == "rate_limited");
  CHECK(soon.retry_after_ms == 3'000);
  CHECK_FALSE(soon.billed_maybe);
  CHECK(answered(429, {}).retry_after_ms == -1);
}

TEST_CASE("more than two minutes are not waited for, and it says so") {
  const auto later = answered(429, {}, {{"retry-after", "121"}});
  CHECK(later.failure.code == "quota");
  CHECK(later.failure.message.find("121 s") != std::string::npos);
}

TEST_CASE("overload and errors of the server may pass") {
  for (const int status : {408, 500, 502, 503, 504, 529}) {
    CAPTURE(status);
    CHECK(code(status, {}) == "overloaded");
  }
}

TEST_CASE("only a gateway may have let a call through that it gave up") {
  CHECK(answered(504, {}).billed_maybe);
  CHECK(answered(502, {}).billed_maybe);
  CHECK_FALSE(answered(503, {}).billed_maybe);
  CHECK_FALSE(answered(400, {}).billed_maybe);
}

TEST_CASE("a wrong request says what to mend") {
  const auto key = answered(401, {"", "", "bad key"});
  CHECK(key.failure.code == "wrong_input");
  CHECK(key.failure.message.find("MINI_KEY") != std::string::npos);
  const auto model = answered(404, {"", "model_not_found", "no such model"});
  CHECK(model.failure.code == "wrong_input");
  CHECK(model.failure.message.find("m-1") != std::string::npos);
  CHECK(model.failure.message.find("weft llm models mini") !=
        std::string::npos);
  CHECK(code(400, {}) == "wrong_input");
  CHECK(code(413, {}) == "wrong_input");
  CHECK(code(422, {}) == "wrong_input");
}

TEST_CASE("x-should-retry goes before the status, but not before money") {
  CHECK(code(500, {}, {{"x-should-retry", "false"}}) == "wrong_input");
  CHECK(code(400, {}, {{"x-should-retry", "true"}}) == "failed");
  CHECK(code(402, {}, {{"x-should-retry", "true"}}) == "quota");
}

TEST_CASE("a redirect is an error that names where it leads") {
  const auto moved =
      answered(302, {}, {{"location", "https://elsewhere.example/"}});
  CHECK(moved.failure.code == "wrong_input");
  CHECK(moved.failure.message.find("https://elsewhere.example/") !=
        std::string::npos);
}

TEST_CASE("an error within a stream is as its type says, and may be billed") {
  const auto within = [](const ServerError& error) {
    return classify_stream_error(endpoint(), {200, {}}, error, 0);
  };
  CHECK(within({"overloaded_error", "", ""}).failure.code == "overloaded");
  CHECK(within({"rate_limit_error", "", ""}).failure.code == "rate_limited");
  CHECK(within({"api_error", "", ""}).failure.code == "overloaded");
  CHECK(within({"invalid_request_error", "", ""}).failure.code ==
        "wrong_input");
  CHECK(within({"", "503", ""}).failure.code == "overloaded");
  CHECK(within({"insufficient_quota", "", ""}).failure.code == "quota");
  CHECK(within({"api_error", "", ""}).billed_maybe);
}

TEST_CASE("a call that never left costs nothing, one that did may") {
  const auto ended = [](HttpEnd::Kind kind, bool sent) {
    HttpEnd end;
    end.kind = kind;
    end.sent = sent;
    return classify_transport(endpoint(), end);
  };
  CHECK_FALSE(ended(HttpEnd::Kind::unreachable, false).billed_maybe);
  CHECK(ended(HttpEnd::Kind::unreachable, false).failure.code == "failed");
  CHECK(ended(HttpEnd::Kind::cut, true).billed_maybe);
  CHECK_FALSE(ended(HttpEnd::Kind::cut, false).billed_maybe);
  CHECK(ended(HttpEnd::Kind::idle, true).billed_maybe);
  CHECK(ended(HttpEnd::Kind::idle, true).failure.code == "overloaded");
  CHECK(ended(HttpEnd::Kind::cancelled, true).failure.code == "cancelled");
  CHECK(ended(HttpEnd::Kind::untrusted, false).failure.code == "wrong_input");
  CHECK(ended(HttpEnd::Kind::too_large, true).billed_maybe);
}

}  // namespace
}  // namespace weft
