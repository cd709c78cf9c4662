#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "actors/llm/quota.hpp"

namespace weft {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
/// A call's minute with 1.5 s of grace.
constexpr std::int64_t kLongMinuteUs = 61'500'000;

LlmOptions one_provider(int calls_at_once, std::int64_t requests = 0,
                        std::int64_t tokens = 0, std::int64_t grace_ms = 0) {
  LlmOptions options;
  options.name = "mini";
  LlmProvider provider;
  provider.name = "mini";
  provider.limits = {calls_at_once, requests, tokens, grace_ms};
  options.providers = {provider};
  return options;
}

LlmCallRequest call(std::uint64_t ticket, const std::string& group = "sg",
                    std::int64_t tokens = 100, std::int64_t micro_usd = 10) {
  LlmCallRequest request;
  request.ticket = ticket;
  request.provider = "mini";
  request.group = group;
  request.tokens = tokens;
  request.micro_usd = micro_usd;
  return request;
}

LlmCallSettled settled(const std::string& failure = "",
                       std::int64_t tokens = 50, std::int64_t micro_usd = 5) {
  LlmCallSettled how;
  how.failure = failure;
  how.tokens = tokens;
  how.micro_usd = micro_usd;
  return how;
}

TEST_CASE("calls at once are halved by a refusal, and grow again by one") {
  LlmQuota quota;
  quota.allow(one_provider(4));
  for (std::uint64_t i = 1; i <= 9; ++i) quota.ask({"a", i}, call(i), 0);
  CHECK(quota.serve(0).granted.size() == 4);
  // Both were under way together: one halving.
  CHECK(quota.settle({"a", 1}, settled("rate_limited"), 1));
  CHECK(quota.settle({"a", 2}, settled("rate_limited"), 2));
  CHECK(quota.serve(2).granted.empty());
  CHECK(quota.settle({"a", 3}, settled(), 3));
  CHECK(quota.settle({"a", 4}, settled(), 3));
  CHECK(quota.serve(3).granted.size() == 2);
}

TEST_CASE("a provider that asks to wait is not asked before") {
  LlmQuota quota;
  quota.allow(one_provider(4));
  quota.ask({"a", 1}, call(1), 0);
  quota.serve(0);
  LlmCallSettled how = settled("overloaded");
  how.retry_after_ms = 5'000;
  quota.settle({"a", 1}, how, 0);
  quota.ask({"a", 2}, call(2), 0);
  const auto decisions = quota.serve(4'999'999);
  CHECK(decisions.granted.empty());
  CHECK(decisions.again_us == 5'000'000);
  CHECK(quota.serve(5'000'000).granted.size() == 1);
}

TEST_CASE("headers that tell a smaller limit count, larger ones do not") {
  LlmQuota quota;
  quota.allow(one_provider(100, 10));
  quota.ask({"a", 1}, call(1), 0);
  quota.serve(0);
  LlmCallSettled how = settled();
  how.limits.requests_limit = 3;
  quota.settle({"a", 1}, how, 0);
  for (std::uint64_t i = 2; i <= 9; ++i) quota.ask({"a", i}, call(i), 0);
  CHECK(quota.serve(0).granted.size() == 2);
  CHECK(quota.serve(59'999'999).granted.empty());
  for (std::uint64_t i = 2; i <= 3; ++i) {
    quota.settle({"a", i}, settled(), 1);
  }
  CHECK(quota.serve(60'000'000).granted.size() == 3);
}

TEST_CASE("a call that could exceed the budget is denied, not queued") {
  LlmOptions options = one_provider(4);
  options.budget_micro_usd = 25;
  LlmQuota quota;
  quota.allow(options);
  quota.ask({"a", 1}, call(1, "sg", 100, 20), 0);
  quota.ask({"a", 2}, call(2, "sg", 100, 20), 0);
  // The first may cost less than is reserved for it: the second waits.
  const auto decisions = quota.serve(0);
  CHECK(decisions.granted.size() == 1);
  CHECK(decisions.denied.empty());
  quota.settle({"a", 1}, settled("", 50, 19), 1);
  const auto later = quota.serve(1);
  REQUIRE(later.denied.size() == 1);
  CHECK(later.denied.front().code == "budget");
  CHECK(later.denied.front().reason.contains(" are left of the run's budget"));
}

TEST_CASE("no quota left is final, for those that wait as well") {
  LlmQuota quota;
  quota.allow(one_provider(1));
  quota.ask({"a", 1}, call(1), 0);
  quota.ask({"a", 2}, call(2), 0);
  quota.serve(0);
  quota.settle({"a", 1}, settled("quota", 0, 0), 1);
  const auto decisions = quota.serve(1);
  REQUIRE(decisions.denied.size() == 1);
  CHECK(decisions.denied.front().code == "quota");
}

TEST_CASE("a lease without an answer counts as what it could have cost") {
  LlmQuota quota;
  quota.allow(one_provider(1));
  quota.ask({"a", 1}, call(1, "sg", 100, 10), 0);
  quota.serve(0);
  CHECK(quota.expire({"a", 1}, 1));
  CHECK(quota.spent_micro_usd() == 10);
  CHECK(quota.spent_tokens() == 100);
  CHECK_FALSE(quota.settle({"a", 1}, settled(), 2));
}

/// A provider and its callers under a seeded clock, with every fault.
struct World {
  explicit World(std::uint64_t seed) : random(seed) {
    options = one_provider(static_cast<int>(1 + pick(6)), 1 + pick(40),
                           1'000 + pick(20'000), 1'500 * pick(2));
    if (pick(2) == 0) options.budget_micro_usd = pick(2'000);
    if (pick(2) == 0) options.budget_tokens = pick(40'000);
    if (pick(3) == 0) options.subgraph_micro_usd = pick(500);
    quota.allow(options);
  }

  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random() %
                                     static_cast<std::uint64_t>(below));
  }

  struct Running {
    LlmCallRequest request;
    std::int64_t ends_us = 0;
  };

  void ask() {
    auto request = call(++last, "sg" + std::to_string(pick(4)), 1 + pick(900),
                        1 + pick(90));
    request.priority = static_cast<int>(pick(2));
    if (pick(5) == 0) request.not_before_us = now + pick(30'000'000);
    quota.ask({"a", last}, request, now);
    waiting[last] = request;
  }

  void serve() {
    const auto decisions = quota.serve(now);
    again = decisions.again_us;
    for (const auto& granted : decisions.granted) {
      const auto ticket = granted.ticket.second;
      const auto request = waiting.at(ticket);
      waiting.erase(ticket);
      CHECK(request.not_before_us <= now);
      CHECK(now >= blocked_until);
      running[ticket] = {request, now + pick(90'000'000)};
      minute.emplace_back(now, request.tokens, ticket);
      reserved_usd += request.micro_usd;
      reserved_tokens += request.tokens;
    }
    for (const auto& denied : decisions.denied) {
      waiting.erase(denied.ticket.second);
    }
    hold();
  }

  void settle() {
    if (running.empty()) return;
    auto current = running.begin();
    std::advance(current, pick(static_cast<std::int64_t>(running.size())));
    const auto ticket = current->first;
    const Running call = current->second;
    running.erase(current);
    static const char* const codes[] = {"",           "", "", "rate_limited",
                                        "overloaded", "", "", "failed"};
    auto how = settled(codes[pick(8)], pick(call.request.tokens + 1),
                       pick(call.request.micro_usd + 1));
    if (pick(6) == 0 && !how.failure.empty()) {
      how.retry_after_ms = pick(40'000);
      blocked_until = std::max(blocked_until, now + how.retry_after_ms * 1000);
    }
    reserved_usd -= call.request.micro_usd;
    reserved_tokens -= call.request.tokens;
    if (pick(10) == 0) {
      quota.expire({"a", ticket}, now);
      how.tokens = call.request.tokens;
      how.micro_usd = call.request.micro_usd;
      blocked_until = known_blocked;  // it said nothing
    } else {
      quota.settle({"a", ticket}, how, now);
      known_blocked = blocked_until;
    }
    spent_usd += how.micro_usd;
    spent_tokens += how.tokens;
    for (auto& [at, tokens, who] : minute) {
      if (who == ticket) tokens = how.tokens;
    }
    hold();
  }

  /// Every limit, at this moment.
  void hold() {
    const LlmLimits& limits = options.providers.front().limits;
    CHECK(static_cast<int>(running.size()) <= limits.calls_at_once);
    std::int64_t requests = 0;
    std::int64_t tokens = 0;
    for (const auto& [at, count, who] : minute) {
      if (at + 60'000'000 + 1000 * limits.grace_ms <= now) continue;
      ++requests;
      tokens += count;
    }
    CHECK(requests <= limits.requests_per_minute);
    CHECK(tokens <= limits.tokens_per_minute);
    if (options.budget_micro_usd >= 0) {
      CHECK(spent_usd + reserved_usd <= options.budget_micro_usd);
    }
    if (options.budget_tokens >= 0) {
      CHECK(spent_tokens + reserved_tokens <= options.budget_tokens);
    }
    CHECK(quota.spent_micro_usd() == spent_usd);
    CHECK(quota.reserved_micro_usd() == reserved_usd);
  }

  std::mt19937_64 random;
  LlmOptions options;
  LlmQuota quota;
  std::int64_t now = 0;
  std::int64_t blocked_until = 0;
  std::int64_t known_blocked = 0;
  std::optional<std::int64_t> again;
  std::uint64_t last = 0;
  std::map<std::uint64_t, LlmCallRequest> waiting;
  std::map<std::uint64_t, Running> running;
  std::vector<std::tuple<std::int64_t, std::int64_t, std::uint64_t>> minute;
  std::int64_t spent_usd = 0;
  std::int64_t spent_tokens = 0;
  std::int64_t reserved_usd = 0;
  std::int64_t reserved_tokens = 0;
};

TEST_CASE("1000 seeds with faults: no limit is exceeded, nobody starves") {
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    CAPTURE(seed);
    World world(seed);
    for (int step = 0; step < 120; ++step) {
      world.now += world.pick(3'000'000);
      if (world.pick(2) == 0) world.ask();
      if (world.pick(3) == 0) world.settle();
      world.serve();
    }
    // No new calls: whoever waits is served or denied, by time alone and as
    // others end.
    int rounds = 0;
    while (!world.waiting.empty() && ++rounds < 2'000) {
      if (!world.running.empty()) {
        world.settle();
      } else {
        REQUIRE(world.again);
        REQUIRE(*world.again > world.now);
        world.now = *world.again;
      }
      world.serve();
    }
    REQUIRE(world.waiting.empty());
  }
}

TEST_CASE("small calls do not for ever take what a large one waits for") {
  LlmQuota quota;
  quota.allow(one_provider(100, 0, 1'000));
  std::uint64_t number = 1;
  constexpr std::int64_t step_us = 10'000'000;
  const auto small = [&](std::int64_t now_us) {
    quota.ask({"small", number}, call(number, "many", 150), now_us);
    ++number;
  };
  small(0);
  quota.serve(0);
  quota.ask({"large", 1}, call(1, "one", 900), 0);
  bool is_served = false;
  std::int64_t now_us = 0;
  for (; !is_served && now_us < 400'000'000; now_us += step_us) {
    small(now_us);
    for (const auto& entry : quota.serve(now_us).granted) {
      is_served |= entry.ticket.first == "large";
      if (entry.ticket.first == "small") {
        quota.settle(entry.ticket, settled("", 150), now_us);
      }
    }
  }
  CHECK(is_served);
  CHECK(now_us <= LlmQuota::kPatienceUs + 80'000'000);
}

/// When each of so many calls, of which there are always some that wait, is
/// allowed: each answers at once, and takes all its tokens.
std::vector<std::int64_t> allowed_at(const LlmOptions& options, int calls,
                                     std::int64_t tokens = 100) {
  LlmQuota quota;
  quota.allow(options);
  std::vector<std::int64_t> at_us;
  std::int64_t now_us = 0;
  const auto all = static_cast<std::size_t>(calls);
  std::uint64_t asked = 0;
  while (at_us.size() < all) {
    // More than may ever be granted at once, and not all: each is looked at.
    while (asked < std::min(all, at_us.size() + 100)) {
      ++asked;
      quota.ask({"a", asked}, call(asked, "sg", tokens), now_us);
    }
    const auto decisions = quota.serve(now_us);
    for (const auto& entry : decisions.granted) {
      at_us.push_back(now_us);
      quota.settle(entry.ticket, settled("", tokens), now_us);
    }
    if (!decisions.granted.empty()) continue;
    REQUIRE(decisions.again_us);
    REQUIRE(*decisions.again_us > now_us);
    now_us = *decisions.again_us;
  }
  return at_us;
}

TEST_CASE("a burst is as large as the calls at once, the rest is spread") {
  const auto at_us = allowed_at(one_provider(64, 600, 0, 1'500), 1'800);
  CHECK(at_us[63] == 0);
  // One in 102.5 ms, until those of the burst no longer count.
  for (std::size_t i = 64; i < 600; ++i) {
    CHECK(at_us[i] == static_cast<std::int64_t>(i - 63) * 102'500);
  }
  CHECK(at_us[600] == kLongMinuteUs);
  // 600 in each minute with its grace: 0.976 of the rate, for ever.
  CHECK(at_us[1'799] < 3 * kLongMinuteUs);
}

TEST_CASE("without grace a limit's calls come at once, as in older runs") {
  const auto at_us = allowed_at(one_provider(64, 600), 601);
  CHECK(at_us[599] == 0);
  CHECK(at_us[600] == 60 * kSecondUs);
}

TEST_CASE("a burst of a large limit is a part of it, however few at once") {
  const auto at_us = allowed_at(one_provider(1, 600, 0, 1'500), 25);
  CHECK(at_us[23] == 0);
  CHECK(at_us[24] == 102'500);
}

TEST_CASE("small limits are not spread: no call waits for nothing") {
  for (const int at_once : {1, 8}) {
    const auto five = allowed_at(one_provider(at_once, 5, 0, 1'500), 11);
    CHECK(five[4] == 0);
    CHECK(five[5] == kLongMinuteUs);
    CHECK(five[9] == kLongMinuteUs);
    CHECK(five[10] == 2 * kLongMinuteUs);
    const auto current = allowed_at(one_provider(at_once, 1, 0, 1'500), 3);
    CHECK(current ==
          std::vector{std::int64_t{0}, kLongMinuteUs, 2 * kLongMinuteUs});
  }
}

TEST_CASE("tokens a minute are spread as requests are") {
  // As many tokens as 600 calls take, and no limit of requests.
  const auto at_us = allowed_at(one_provider(64, 0, 60'000, 1'500), 601);
  CHECK(at_us[63] == 0);
  CHECK(at_us[64] == 102'500);
  CHECK(at_us[599] == 536 * 102'500);
  CHECK(at_us[600] == kLongMinuteUs);
  // Of a limit that two calls take, two come at once.
  const auto large = allowed_at(one_provider(2, 0, 1'000, 1'500), 3, 500);
  CHECK(large[1] == 0);
  CHECK(large[2] == kLongMinuteUs);
}

TEST_CASE("what a call did not take spreads the others no further") {
  const auto wait_us = [](const LlmCallSettled& how) {
    LlmQuota quota;
    quota.allow(one_provider(8, 0, 100'000, 1'500));
    for (std::uint64_t i = 1; i <= 9; ++i) {
      quota.ask({"a", i}, call(i, "sg", 1'000), 0);
    }
    for (const auto& entry : quota.serve(0).granted) {
      quota.settle(entry.ticket, how, 0);
    }
    return quota.serve(0).again_us.value_or(0);
  };
  CHECK(wait_us(settled("", 1'000)) == kLongMinuteUs / 100);
  // 8 of 615 us came back.
  CHECK(wait_us(settled("", 999)) == 610'080);
  CHECK(wait_us(settled("", 500)) == 0);
  LlmCallSettled free = settled("", 1'000);
  free.free = true;
  CHECK(wait_us(free) == 0);
}

TEST_CASE("whatever tokens a server tells, others wait two minutes at most") {
  LlmQuota quota;
  quota.allow(one_provider(64, 0, 100'000, 1'500));
  quota.ask({"a", 1}, call(1), 0);
  REQUIRE(quota.serve(0).granted.size() == 1);
  quota.settle({"a", 1}, settled("", 1'000'000'000'000), 0);
  quota.ask({"a", 2}, call(2), 0);
  CHECK(quota.serve(0).granted.empty());
  CHECK(quota.serve(2 * kLongMinuteUs).granted.size() == 1);
}

TEST_CASE("calls that are up to 1.5 s under way are never too many a minute") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto limit = static_cast<std::int64_t>(1 + random() % 700);
    const auto at_once = static_cast<int>(1 + random() % 64);
    auto at_us = allowed_at(one_provider(at_once, limit, 0, 1'500),
                            static_cast<int>(3 * limit));
    for (auto& at : at_us) {
      at += static_cast<std::int64_t>(random() % 1'500'000);
    }
    std::ranges::sort(at_us);
    for (auto i = static_cast<std::size_t>(limit); i < at_us.size(); ++i) {
      const std::int64_t apart_us =
          at_us[i] - at_us[i - static_cast<std::size_t>(limit)];
      CHECK(apart_us >= 60 * kSecondUs);
    }
  }
}

TEST_CASE("who waits is told so once, with the limit") {
  LlmQuota quota;
  quota.allow(one_provider(1));
  quota.ask({"a", 1}, call(1), 0);
  quota.ask({"a", 2}, call(2), 0);
  const auto decisions = quota.serve(0);
  REQUIRE(decisions.waits.size() == 1);
  CHECK(decisions.waits.front().reason == "for mini: 1 calls at once");
  CHECK(quota.serve(1).waits.empty());
  quota.settle({"a", 1}, settled(), 5'000'000);
  const auto later = quota.serve(5'000'000);
  REQUIRE(later.granted.size() == 1);
  CHECK(later.granted.front().waiting_reported);
  CHECK(later.granted.front().waited_us == 5'000'000);
}

}  // namespace
}  // namespace weft
