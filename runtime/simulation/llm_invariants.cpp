#include "runtime/simulation/llm_invariants.hpp"

#include <algorithm>

#include "actors/llm/seeds.hpp"
#include "actors/role.hpp"

namespace weft {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;

std::string over(const std::string& what, std::int64_t have,
                 std::int64_t limit) {
  return "a call is allowed beyond " + what + ": " + std::to_string(have) +
         " of " + std::to_string(limit);
}

}  // namespace

std::string LlmInvariants::take(const Envelope& envelope,
                                const Message& message) {
  times_.push_back(envelope.at_us);
  std::string problem = take_agents(envelope, message);
  return problem.empty() ? take_call(envelope, message) : problem;
}

/// A role knows of what was journaled up to the event that it answers.
std::string LlmInvariants::take_agents(const Envelope& envelope,
                                       const Message& message) {
  if (const auto* m = std::get_if<OptimizeSubgraph>(&message)) {
    last_locations_[envelope.dst] =
        m->locations.empty() ? "" : m->locations.back();
    // A place that is back is named twice: its workers tell which time it is.
    last_workers_[envelope.dst] =
        m->locations.size() < 2 ? ""
                                : "." + std::to_string(m->locations.size() - 1);
    heard_gone_.erase(envelope.dst);
  } else if (const auto* m = std::get_if<SeedResult>(&message)) {
    const auto last = last_locations_.find(envelope.dst);
    const bool is_gone = last != last_locations_.end() &&
                         m->failure.code == "node_lost" &&
                         m->location == last->second &&
                         envelope.src.ends_with(last_workers_[envelope.dst]);
    if (is_gone) heard_gone_.try_emplace(envelope.dst, envelope.seq);
  } else if (std::holds_alternative<RefineRequest>(message)) {
    const auto gone = heard_gone_.find(envelope.src);
    if (gone != heard_gone_.end() && gone->second <= envelope.cause) {
      return envelope.src + " asks a model, and has no place left";
    }
  } else if (std::holds_alternative<StopSeed>(message)) {
    if (envelope.dst == address::seeds(kLlmSource)) {
      stopped_.try_emplace(envelope.src, envelope.seq);
    }
  }
  return "";
}

std::string LlmInvariants::is_wanted(const std::string& group,
                                     std::uint64_t cause) const {
  const auto stopped = stopped_.find(address::agent(group));
  if (stopped == stopped_.end() || cause < stopped->second) return "";
  return "a call is made for " + group + ", which has stopped its calls";
}

std::string LlmInvariants::take_call(const Envelope& envelope,
                                     const Message& message) {
  if (const auto* m = std::get_if<LlmAllowance>(&message)) {
    options_ = m->options;
    for (const LlmProvider& provider : options_.providers) {
      providers_[provider.name].what = provider;
    }
  } else if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
    waiting_[{envelope.src, m->ticket}] = {
        *m, std::max(envelope.at_us, m->not_before_us)};
    return is_wanted(m->group, envelope.cause);
  } else if (const auto* m = std::get_if<LlmCallDenied>(&message)) {
    waiting_.erase({envelope.dst, m->ticket});
  } else if (const auto* m = std::get_if<LeaseGranted>(&message)) {
    const Ticket ticket{envelope.dst, m->ticket};
    if (waiting_.contains(ticket)) return grant(ticket, envelope);
  } else if (const auto* m = std::get_if<LeaseExpired>(&message)) {
    const auto call = leases_.find({envelope.dst, m->ticket});
    if (call == leases_.end()) return "";
    const LlmCallRequest request = call->second.request;
    settle(call->first, request.tokens, request.micro_usd, false);
  } else if (const auto* m = std::get_if<LlmCallSettled>(&message)) {
    const Ticket ticket{envelope.src, m->ticket};
    // Given up before it was allowed: a grant may be on its way all the same.
    if (waiting_.erase(ticket) > 0) granted_[ticket] = true;
    const auto call = leases_.find(ticket);
    if (call == leases_.end()) return "";
    const LlmCallRequest& request = call->second.request;
    if (m->tokens > request.tokens || m->micro_usd > request.micro_usd) {
      return "a call costs more than was reserved for it";
    }
    if (m->retry_after_ms > 0) {
      providers_[request.provider].pauses.push_back(
          {envelope.seq, envelope.at_us + m->retry_after_ms * 1000});
    }
    settle(ticket, m->tokens, m->micro_usd, m->free);
  } else if (const auto* m = std::get_if<LlmRequest>(&message)) {
    const auto call = granted_.find({envelope.src, m->effect});
    if (call == granted_.end()) return "";  // told by who knows all effects
    if (call->second) return "a call is made twice";
    call->second = true;
    const auto lease = leases_.find(call->first);
    if (lease == leases_.end()) return "";
    return is_wanted(lease->second.request.group, envelope.cause);
  }
  return "";
}

std::string LlmInvariants::grant(const Ticket& ticket,
                                 const Envelope& envelope) {
  const Call call = waiting_.extract(ticket).mapped();
  const LlmCallRequest& request = call.request;
  Provider& provider = providers_[request.provider];
  // The broker decides at the time of what it has heard last.
  const std::int64_t now_us = time_of(envelope.cause);
  granted_[ticket] = false;
  if (request.not_before_us > now_us) return "a call is tried again too early";
  for (const Pause& pause : provider.pauses) {
    if (pause.heard <= envelope.cause && pause.until_us > now_us) {
      return "a call is allowed while " + request.provider +
             " has asked for a pause";
    }
  }
  if (++provider.used > provider.what.limits.calls_at_once) {
    return over("the calls at once of " + request.provider, provider.used,
                provider.what.limits.calls_at_once);
  }
  leases_[ticket] = call;
  for (Spent* spent : {&run_, &groups_[request.group]}) {
    spent->reserved_tokens += request.tokens;
    spent->reserved_micro_usd += request.micro_usd;
  }
  std::string problem = within_rates(provider, ticket, call, now_us);
  if (problem.empty()) problem = within_budgets(request);
  if (problem.empty()) problem = in_turn(call);
  return problem;
}

std::string LlmInvariants::within_rates(Provider& provider,
                                        const Ticket& ticket, const Call& call,
                                        std::int64_t now_us) {
  const LlmLimits& limits = provider.what.limits;
  provider.minute.push_back({now_us, call.request.tokens, ticket});
  std::erase_if(provider.minute, [&](const Minute& minute) {
    return minute.at_us + kMinuteUs + 1000 * limits.grace_ms <= now_us;
  });
  const auto count = static_cast<std::int64_t>(provider.minute.size());
  if (limits.requests_per_minute > 0 && count > limits.requests_per_minute) {
    return over("the requests a minute of " + provider.what.name, count,
                limits.requests_per_minute);
  }
  std::int64_t tokens = 0;
  for (const Minute& minute : provider.minute) tokens += minute.tokens;
  if (limits.tokens_per_minute > 0 && tokens > limits.tokens_per_minute) {
    return over("the tokens a minute of " + provider.what.name, tokens,
                limits.tokens_per_minute);
  }
  return "";
}

std::string LlmInvariants::within_budgets(const LlmCallRequest& request) {
  struct Limit {
    const char* what;
    std::int64_t have;
    std::int64_t limit;
  };
  const Spent& own = groups_[request.group];
  const Limit limits[] = {
      {"the run's budget of tokens", run_.tokens + run_.reserved_tokens,
       options_.budget_tokens},
      {"the run's budget of money", run_.micro_usd + run_.reserved_micro_usd,
       options_.budget_micro_usd},
      {"a subgraph's budget of tokens", own.tokens + own.reserved_tokens,
       options_.subgraph_tokens},
      {"a subgraph's budget of money", own.micro_usd + own.reserved_micro_usd,
       options_.subgraph_micro_usd}};
  for (const Limit& entry : limits) {
    if (entry.limit >= 0 && entry.have > entry.limit) {
      return over(entry.what, entry.have, entry.limit);
    }
  }
  return "";
}

std::string LlmInvariants::in_turn(const Call& call) const {
  for (const auto& [ticket, other] : waiting_) {
    if (other.request.provider == call.request.provider &&
        other.asked_us + kPatienceUs < call.asked_us) {
      return "a call waits behind one that was asked for five minutes later";
    }
  }
  return "";
}

void LlmInvariants::settle(const Ticket& ticket, std::int64_t tokens,
                           std::int64_t micro_usd, bool free) {
  const LlmCallRequest request = leases_.extract(ticket).mapped().request;
  for (Spent* spent : {&run_, &groups_[request.group]}) {
    spent->reserved_tokens -= request.tokens;
    spent->reserved_micro_usd -= request.micro_usd;
    spent->tokens += tokens;
    spent->micro_usd += micro_usd;
  }
  Provider& provider = providers_[request.provider];
  --provider.used;
  const auto counted =
      std::ranges::find(provider.minute, ticket, &Minute::ticket);
  if (counted == provider.minute.end()) return;
  if (free) {
    provider.minute.erase(counted);
  } else {
    counted->tokens = tokens;
  }
}

}  // namespace weft
