#include "actors/llm/quota.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "actors/llm/calls.hpp"

namespace weft {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
/// Of a limit above it nobody's calls take a part that is worth a pace.
constexpr std::int64_t kPacedMax = 10'000'000'000;

/// The smaller of two limits, of which those that are not above 0 are none.
std::int64_t tighter(std::int64_t a, std::int64_t b) {
  if (a <= 0) return b;
  if (b <= 0) return a;
  return std::min(a, b);
}

std::int64_t requests_limit(const LlmLimits& user,
                            const LlmHeaderLimits& llm_header_limits) {
  return tighter(user.requests_per_minute, llm_header_limits.requests_limit);
}

std::int64_t tokens_limit(const LlmLimits& user,
                          const LlmHeaderLimits& llm_header_limits) {
  return tighter(user.tokens_per_minute, llm_header_limits.tokens_limit);
}

/// How long a call counts.
std::int64_t minute_us(const LlmLimits& limits) {
  return kMinuteUs + 1000 * limits.grace_ms;
}

/// What so much of a limit takes at an even pace; 0: there is no pace.
std::int64_t pace_us(const LlmLimits& limits, std::int64_t limit,
                     std::int64_t amount) {
  if (limits.grace_ms <= 0 || limit <= 0 || limit > kPacedMax) return 0;
  return amount * minute_us(limits) / limit;
}

bool is_congestion(const std::string& code) {
  return code == "rate_limited" || code == "overloaded" || code == "expired";
}

/// One call may cost next to nothing.
std::string money(std::int64_t micro_usd) { return dollars(micro_usd, 6); }

std::string tokens(std::int64_t count) {
  return std::to_string(count) + " tokens";
}

/// What a limit lacks for a call; a limit below 0 is none.
enum class Headroom { enough, while_reserved, never };
Headroom headroom_in(std::int64_t limit, std::int64_t spent,
                     std::int64_t reserved, std::int64_t wanted) {
  if (limit < 0 || spent + reserved + wanted <= limit) return Headroom::enough;
  return reserved > 0 && spent + wanted <= limit ? Headroom::while_reserved
                                                 : Headroom::never;
}

}  // namespace

void LlmQuota::allow(const LlmOptions& options) {
  options_ = options;
  for (const LlmProvider& what : options.providers) {
    Provider& provider = providers_[what.name];
    provider.what = what;
    provider.window = std::max(1, what.limits.calls_at_once);
  }
}

void LlmQuota::ask(const Ticket& ticket, const LlmCallRequest& request,
                   std::int64_t now_us) {
  if (!providers_.contains(request.provider)) {
    denied_.push_back(
        {ticket, "unknown", "the run may not ask '" + request.provider + "'"});
  } else if (waiting_.size() >= kWaitingMax) {
    denied_.push_back({ticket, "full", "too many calls wait already"});
  } else {
    waiting_.push_back({ticket, request, now_us, next_number_++, false});
  }
}

bool LlmQuota::settle(const Ticket& ticket, const LlmCallSettled& how,
                      std::int64_t now_us) {
  const auto node = leases_.extract(ticket);
  if (node.empty()) return false;
  const Lease& lease = node.mapped();
  release(lease, how.tokens, how.micro_usd);
  Provider& provider = providers_.at(lease.provider);
  --provider.used;
  const auto counted =
      std::ranges::find(provider.minute, ticket, &Minute::ticket);
  const LlmLimits& limits = provider.what.limits;
  // What it did not take is there for others, unless its minute is over.
  if (lease.granted_us + minute_us(limits) > now_us) {
    // A server may tell any number of tokens: a minute's are the most.
    const auto took = std::min(
        how.tokens,
        std::max(lease.tokens, tokens_limit(limits, provider.reported_limits)));
    const auto left = how.free ? lease.tokens : lease.tokens - took;
    provider.tokens_paced_us -=
        pace_us(limits, tokens_limit(limits, provider.reported_limits), left);
    provider.requests_paced_us -=
        pace_us(limits, requests_limit(limits, provider.reported_limits),
                how.free ? 1 : 0);
  }
  if (how.free) {
    if (counted != provider.minute.end()) provider.minute.erase(counted);
    return true;
  }
  if (counted != provider.minute.end()) counted->tokens = how.tokens;
  learn(provider, lease, how, now_us);
  return true;
}

bool LlmQuota::expire(const Ticket& ticket, std::int64_t now_us) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end()) return false;
  LlmCallSettled how;
  how.failure = "expired";
  how.tokens = found->second.tokens;
  how.micro_usd = found->second.micro_usd;
  return settle(ticket, how, now_us);
}

void LlmQuota::forget(const Ticket& ticket) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    return waiting.ticket == ticket;
  });
}

void LlmQuota::release(const Lease& lease, std::int64_t tokens,
                       std::int64_t micro_usd) {
  for (Budget* budget : {&run_, &groups_[lease.group]}) {
    budget->reserved_tokens -= lease.tokens;
    budget->reserved_micro_usd -= lease.micro_usd;
    budget->spent_tokens += tokens;
    budget->spent_micro_usd += micro_usd;
  }
}

/// What the call says about the provider.
void LlmQuota::learn(Provider& provider, const Lease& lease,
                     const LlmCallSettled& how, std::int64_t now_us) {
  if (how.failure == "quota") {
    provider.closed = provider.what.name + " has no quota or money left";
  }
  if (how.failure.empty()) {
    const double most = std::max(1, provider.what.limits.calls_at_once);
    provider.window =
        std::min(most, provider.window + 1 / std::max(1.0, provider.window));
  } else if (is_congestion(how.failure) &&
             lease.granted_us > provider.halved_us) {
    // Once for all calls that were under way together.
    provider.window = std::max(1.0, provider.window / 2);
    provider.halved_us = now_us;
  }
  if (how.retry_after_ms > 0) {
    provider.blocked_until_us =
        std::max(provider.blocked_until_us, now_us + how.retry_after_ms * 1000);
  }
  LlmHeaderLimits& llm_header_limits = provider.reported_limits;
  if (how.limits.requests_limit > 0) {
    llm_header_limits.requests_limit = how.limits.requests_limit;
  }
  if (how.limits.tokens_limit > 0)
    llm_header_limits.tokens_limit = how.limits.tokens_limit;
  if (how.limits.requests_remaining >= 0 && how.limits.requests_reset_ms > 0) {
    llm_header_limits.requests_remaining = how.limits.requests_remaining;
    provider.requests_reset_us = now_us + how.limits.requests_reset_ms * 1000;
  }
  if (how.limits.tokens_remaining >= 0 && how.limits.tokens_reset_ms > 0) {
    llm_header_limits.tokens_remaining = how.limits.tokens_remaining;
    provider.tokens_reset_us = now_us + how.limits.tokens_reset_ms * 1000;
  }
}

LlmQuota::Decisions LlmQuota::serve(std::int64_t now_us) {
  Decisions decisions;
  while (const auto which = next(now_us, decisions)) {
    const Waiting chosen = waiting_[*which];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*which));
    grant(chosen, now_us);
    decisions.granted.push_back({chosen.ticket, chosen.request.ttl_ms,
                                 chosen.request.group, chosen.request.provider,
                                 now_us - chosen.since_us,
                                 chosen.waiting_reported});
  }
  report_waits(now_us, decisions);
  decisions.denied = std::exchange(denied_, {});
  return decisions;
}

void LlmQuota::report_waits(std::int64_t now_us, Decisions& decisions) {
  for (Waiting& waiting : waiting_) {
    if (waiting.waiting_reported) continue;
    const Answer answer = fits(waiting, now_us);
    const bool is_soon =
        answer.at_us >= 0 && answer.at_us - now_us < kNoticedUs;
    if (answer.fit != Fit::later || answer.reason.empty() || is_soon) continue;
    waiting.waiting_reported = true;
    decisions.waits.push_back(
        {waiting.request.group,
         "for " + waiting.request.provider + ": " + answer.reason,
         answer.at_us});
  }
}

/// Whose turn it is: by priority, then the group served longest ago, then who
/// came first. Denies what can never be allowed.
std::optional<std::size_t> LlmQuota::next(std::int64_t now_us,
                                          Decisions& decisions) {
  std::vector<Fit> fit;
  std::map<std::string, std::uint64_t> patient_no_more;  // by provider: number
  decisions.again_us.reset();
  for (std::size_t i = 0; i < waiting_.size();) {
    const Waiting& waiting = waiting_[i];
    const Answer answer = fits(waiting, now_us);
    if (answer.fit == Fit::never) {
      denied_.push_back({waiting.ticket, answer.code, answer.reason});
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (answer.fit == Fit::later) {
      if (answer.at_us >= 0 &&
          (!decisions.again_us || answer.at_us < *decisions.again_us)) {
        decisions.again_us = answer.at_us;
      }
      const auto since_us =
          std::max(waiting.since_us, waiting.request.not_before_us);
      if (since_us + kPatienceUs <= now_us) {
        patient_no_more.try_emplace(waiting.request.provider, waiting.number);
      }
    }
    fit.push_back(answer.fit);
    ++i;
  }
  std::optional<std::size_t> best;
  std::tuple<std::int64_t, std::uint64_t, std::uint64_t> best_key;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Waiting& waiting = waiting_[i];
    const auto before = patient_no_more.find(waiting.request.provider);
    const bool is_behind =
        before != patient_no_more.end() && before->second < waiting.number;
    if (fit[i] != Fit::now || is_behind) continue;
    const std::int64_t priority =
        waiting.request.priority + (now_us - waiting.since_us) / kAgingUs;
    const auto served = served_.find(waiting.request.group);
    const std::tuple key{-priority,
                         served == served_.end() ? 0 : served->second,
                         waiting.number};
    if (!best || key < best_key) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

LlmQuota::Answer LlmQuota::fits(const Waiting& waiting, std::int64_t now_us) {
  const LlmCallRequest& request = waiting.request;
  Provider& provider = providers_.at(request.provider);
  if (!provider.closed.empty()) {
    return {Fit::never, -1, "quota", provider.closed};
  }
  Answer answer = fits_budget(request);
  if (answer.fit != Fit::now) return answer;
  if (request.not_before_us > now_us) {
    return {Fit::later, request.not_before_us, "", "to try again"};
  }
  if (provider.blocked_until_us > now_us) {
    return {Fit::later, provider.blocked_until_us, "", "it asked for a pause"};
  }
  answer = fits_rate(provider, request, now_us);
  if (answer.fit != Fit::now) return answer;
  const bool is_full = provider.used >= static_cast<int>(provider.window);
  return {is_full ? Fit::later : Fit::now, -1, "",
          is_full ? std::to_string(provider.used) + " calls at once" : ""};
}

LlmQuota::Answer LlmQuota::fits_budget(const LlmCallRequest& request) const {
  const auto group = groups_.find(request.group);
  const Budget own = group == groups_.end() ? Budget() : group->second;
  struct Limit {
    std::string of;
    std::int64_t limit;
    std::int64_t spent;
    std::int64_t reserved;
    std::int64_t wanted;
    std::string (*text)(std::int64_t);
  };
  const std::string group_name = "the budget of " + request.group;
  const std::array<Limit, 4> limits = {{
      {"the run's budget", options_.budget_micro_usd, run_.spent_micro_usd,
       run_.reserved_micro_usd, request.micro_usd, money},
      {"the run's budget", options_.budget_tokens, run_.spent_tokens,
       run_.reserved_tokens, request.tokens, tokens},
      {group_name, options_.subgraph_micro_usd, own.spent_micro_usd,
       own.reserved_micro_usd, request.micro_usd, money},
      {group_name, options_.subgraph_tokens, own.spent_tokens,
       own.reserved_tokens, request.tokens, tokens},
  }};
  bool has_to_wait = false;
  for (const Limit& entry : limits) {
    const Headroom headroom =
        headroom_in(entry.limit, entry.spent, entry.reserved, entry.wanted);
    has_to_wait |= headroom == Headroom::while_reserved;
    if (headroom != Headroom::never) continue;
    const std::int64_t left =
        std::max<std::int64_t>(0, entry.limit - entry.spent - entry.reserved);
    return {Fit::never, -1, "budget",
            "the next call could take " + entry.text(entry.wanted) + ", and " +
                entry.text(left) + " are left of " + entry.of + " of " +
                entry.text(entry.limit)};
  }
  if (!has_to_wait) return {};
  return {Fit::later, -1, "", "the budget is reserved for other calls"};
}

LlmQuota::Answer LlmQuota::fits_rate(Provider& provider,
                                     const LlmCallRequest& request,
                                     std::int64_t now_us) {
  const LlmLimits& limits = provider.what.limits;
  const std::int64_t length_us = minute_us(limits);
  auto& minute = provider.minute;
  while (!minute.empty() && minute.front().at_us + length_us <= now_us &&
         !leases_.contains(minute.front().ticket)) {
    minute.pop_front();
  }
  const auto requests = requests_limit(limits, provider.reported_limits);
  const auto tokens = tokens_limit(limits, provider.reported_limits);
  if (tokens > 0 && request.tokens > tokens) {
    return {Fit::never, -1, "full",
            "a call of " + std::to_string(request.tokens) +
                " tokens at most is more than " + provider.what.name +
                " takes in a minute (" + std::to_string(tokens) +
                "): lower max_output_tokens"};
  }
  if (provider.requests_reset_us > now_us &&
      provider.reported_limits.requests_remaining <= 0) {
    return {Fit::later, provider.requests_reset_us, "",
            "it has no requests left"};
  }
  if (provider.tokens_reset_us > now_us &&
      provider.reported_limits.tokens_remaining < request.tokens) {
    return {Fit::later, provider.tokens_reset_us, "", "it has no tokens left"};
  }
  const std::int64_t paced_us = paced_until(provider, request);
  if (paced_us > now_us) {
    return {Fit::later, paced_us, "", "its requests and tokens a minute"};
  }
  std::int64_t count = 0;
  std::int64_t sum = 0;
  // The oldest first: those that must have gone before there is room.
  std::int64_t at_us = -1;
  for (auto current = minute.rbegin(); current != minute.rend(); ++current) {
    if (current->at_us + length_us <= now_us) continue;
    ++count;
    sum += current->tokens;
    const bool is_over = (requests > 0 && count + 1 > requests) ||
                         (tokens > 0 && sum + request.tokens > tokens);
    if (is_over) at_us = std::max(at_us, current->at_us + length_us);
  }
  if (at_us < 0) return {};
  return {Fit::later, at_us, "", "its requests and tokens a minute"};
}

/// When its turn is at an even pace, but for a burst: that has room for as many
/// calls like this one as may be made at once.
std::int64_t LlmQuota::paced_until(const Provider& provider,
                                   const LlmCallRequest& request) {
  const LlmLimits& limits = provider.what.limits;
  const std::int64_t length_us = minute_us(limits);
  const auto calls = std::max<std::int64_t>(limits.calls_at_once, kBurstMin);
  const auto turn = [&](std::int64_t paced_us, std::int64_t takes_us) {
    const std::int64_t burst_us =
        std::min(length_us, std::max(length_us / kBurstPart, calls * takes_us));
    return paced_us + takes_us - burst_us;
  };
  return std::max(
      turn(
          provider.requests_paced_us,
          pace_us(limits, requests_limit(limits, provider.reported_limits), 1)),
      turn(provider.tokens_paced_us,
           pace_us(limits, tokens_limit(limits, provider.reported_limits),
                   request.tokens)));
}

void LlmQuota::grant(const Waiting& waiting, std::int64_t now_us) {
  const LlmCallRequest& request = waiting.request;
  Provider& provider = providers_.at(request.provider);
  ++provider.used;
  if (provider.requests_reset_us > now_us)
    --provider.reported_limits.requests_remaining;
  if (provider.tokens_reset_us > now_us) {
    provider.reported_limits.tokens_remaining -= request.tokens;
  }
  provider.minute.push_back({now_us, request.tokens, waiting.ticket});
  const LlmLimits& limits = provider.what.limits;
  provider.requests_paced_us =
      std::max(provider.requests_paced_us, now_us) +
      pace_us(limits, requests_limit(limits, provider.reported_limits), 1);
  provider.tokens_paced_us =
      std::max(provider.tokens_paced_us, now_us) +
      pace_us(limits, tokens_limit(limits, provider.reported_limits),
              request.tokens);
  for (Budget* budget : {&run_, &groups_[request.group]}) {
    budget->reserved_tokens += request.tokens;
    budget->reserved_micro_usd += request.micro_usd;
  }
  leases_[waiting.ticket] = {request.provider, request.group, request.tokens,
                             request.micro_usd, now_us};
  served_[request.group] = next_served_++;
}

int LlmQuota::at_once(const std::string& provider) const {
  const auto found = providers_.find(provider);
  return found == providers_.end() ? 0 : found->second.used;
}

}  // namespace weft
