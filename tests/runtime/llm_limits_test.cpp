#include <doctest/doctest.h>

#include "runtime/llm/limits.hpp"

namespace weft {
namespace {

/// 2026-01-27T12:00:00Z.
constexpr std::int64_t kNowMs = 1'769'515'200'000;

TEST_CASE("resets are durations, seconds, epochs or dates") {
  const auto reset = [](std::string_view text) {
    return parse_reset_ms(text, kNowMs).value_or(-1);
  };
  CHECK(reset("12ms") == 12);
  CHECK(reset("1s") == 1'000);
  CHECK(reset("6m0s") == 360'000);
  CHECK(reset("1h2m3.5s") == 3'723'500);
  CHECK(reset("30") == 30'000);
  CHECK(reset("0.25") == 250);
  CHECK(reset("1769515260") == 60'000);
  CHECK(reset("1769515260500") == 60'500);
  CHECK(reset("2026-01-27T12:00:30Z") == 30'000);
  CHECK(reset("2026-01-27T12:00:30.250Z") == 30'250);
  CHECK(reset("2026-01-27T14:00:30+02:00") == 30'000);
  CHECK(reset("2026-01-27T11:59:30Z") == 0);
}

TEST_CASE("what is no reset tells nothing") {
  for (const std::string_view text :
       {"", "soon", "5x", "-3", "1e400", "nan", "9999999999999999", "1s2"}) {
    CAPTURE(text);
    const auto reset = parse_reset_ms(text, kNowMs);
    CHECK((!reset || *reset == 0));
  }
}

TEST_CASE("OpenAI's limits") {
  const auto limits = limits_of({{"x-ratelimit-limit-requests", "500"},
                                 {"x-ratelimit-remaining-requests", "499"},
                                 {"x-ratelimit-reset-requests", "120ms"},
                                 {"x-ratelimit-limit-tokens", "30000"},
                                 {"x-ratelimit-remaining-tokens", "29000"},
                                 {"x-ratelimit-reset-tokens", "6m0s"}},
                                kNowMs);
  CHECK(limits == LlmHeaderLimits{500, 499, 120, 30'000, 29'000, 360'000});
}

TEST_CASE("Anthropic's limits, held against the server's own clock") {
  const auto limits = limits_of(
      {{"date", "Tue, 27 Jan 2026 11:00:00 GMT"},
       {"anthropic-ratelimit-requests-limit", "50"},
       {"anthropic-ratelimit-requests-remaining", "49"},
       {"anthropic-ratelimit-requests-reset", "2026-01-27T11:00:05Z"},
       {"anthropic-ratelimit-input-tokens-limit", "20000"},
       {"anthropic-ratelimit-input-tokens-remaining", "19000"},
       {"anthropic-ratelimit-input-tokens-reset", "2026-01-27T11:00:10Z"}},
      kNowMs);
  CHECK(limits == LlmHeaderLimits{50, 49, 5'000, 20'000, 19'000, 10'000});
}

TEST_CASE("OpenRouter's limits are of requests, its reset an epoch in ms") {
  const auto limits = limits_of({{"x-ratelimit-limit", "20"},
                                 {"x-ratelimit-remaining", "0"},
                                 {"x-ratelimit-reset", "1769515260000"}},
                                kNowMs);
  CHECK(limits == LlmHeaderLimits{20, 0, 60'000, -1, -1, -1});
}

TEST_CASE("absent or odd headers tell nothing") {
  CHECK(limits_of({}, kNowMs) == LlmHeaderLimits{});
  CHECK(limits_of({{"x-ratelimit-limit-requests", "many"},
                   {"x-ratelimit-remaining-tokens", "-1"},
                   {"x-ratelimit-reset-tokens", ""}},
                  kNowMs) == LlmHeaderLimits{});
}

TEST_CASE("retry-after-ms goes before retry-after, in seconds or as a date") {
  const auto wait = [](const HttpHeaders& headers) {
    return retry_after_ms(headers, kNowMs).value_or(-1);
  };
  CHECK(wait({{"retry-after-ms", "1500"}, {"retry-after", "9"}}) == 1'500);
  CHECK(wait({{"retry-after", "2"}}) == 2'000);
  CHECK(wait({{"retry-after", "0.5"}}) == 500);
  CHECK(wait({{"retry-after", "Tue, 27 Jan 2026 12:00:07 GMT"}}) == 7'000);
  CHECK(wait({{"retry-after", "Tue, 27 Jan 2026 12:00:07 GMT"},
              {"date", "Tue, 27 Jan 2026 12:00:04 GMT"}}) == 3'000);
  CHECK(wait({{"retry-after-ms", "x"}, {"retry-after", "1"}}) == 1'000);
  CHECK(wait({{"retry-after", "-1"}}) == -1);
  CHECK(wait({{"retry-after", "later"}}) == -1);
  CHECK(wait({}) == -1);
}

TEST_CASE("x-should-retry is true, false or nothing") {
  CHECK(should_retry({{"x-should-retry", "true"}}) == true);
  CHECK(should_retry({{"x-should-retry", "false"}}) == false);
  CHECK_FALSE(should_retry({{"x-should-retry", "maybe"}}).has_value());
  CHECK_FALSE(should_retry({}).has_value());
}

}  // namespace
}  // namespace weft
