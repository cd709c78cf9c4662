#include "actors/llm/calls.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weft {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kFirstWaitMs = 1'000;
constexpr std::int64_t kLongestWaitMs = 60'000;
/// The port keeps the time limit; the lease is its safety net.
constexpr std::int64_t kSlackMs = 60'000;
/// What a dialect puts around the texts, in tokens.
constexpr std::int64_t kFrameTokens = 64;

/// A number that the journal gives: its time, and whose turn it is.
std::uint64_t drawn(std::int64_t now_us, std::uint64_t effect) {
  std::uint64_t x = static_cast<std::uint64_t>(now_us) + effect * 0x9e3779b9;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Exponential, and between half and the whole of it.
std::int64_t wait_ms(int failures, std::int64_t now_us, std::uint64_t effect) {
  const std::int64_t whole =
      std::min(kLongestWaitMs, kFirstWaitMs << std::min(failures, 6));
  const auto half = static_cast<std::uint64_t>(whole / 2);
  return whole / 2 + static_cast<std::int64_t>(drawn(now_us, effect) % half);
}

bool may_pass(const std::string& code) {
  return code == "rate_limited" || code == "overloaded" || code == "failed" ||
         code == "expired" || code == "node_lost";
}

std::int64_t tokens_of(const LlmUsage& usage) {
  return usage.input + usage.cached + usage.cache_written + usage.output +
         usage.reasoning;
}

}  // namespace

void add_spent(LlmSpent& all, const LlmSpent& more) {
  all.calls += more.calls;
  all.from_cache += more.from_cache;
  all.tokens += more.tokens;
  all.micro_usd += more.micro_usd;
  all.waited_ms += more.waited_ms;
}

std::string dollars(std::int64_t micro_usd, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f USD", digits,
                static_cast<double>(micro_usd) / 1e6);
  return text;
}

std::int64_t cost_max(const LlmPrices& prices, std::int64_t input_tokens,
                      std::int64_t output_tokens) {
  const auto in = std::max({prices.input, prices.cached, prices.cache_written});
  const auto out = std::max(prices.output, prices.reasoning);
  return (input_tokens * in + output_tokens * out + kMillion - 1) / kMillion;
}

std::uint64_t LlmCalls::start(const LlmOptions& options, LlmCall call,
                              Context& context) {
  Open open;
  open.call = std::move(call);
  open.providers = options.providers;
  int count = 1;
  if (!options.providers.front().native_samples) {
    count = std::max(1, std::exchange(open.call.samples, 1));
  }
  const std::uint64_t id = next_;
  wholes_[id].left = count;
  for (int i = 0; i < count; ++i) {
    Open current = open;
    current.id = id;
    current.first = next_++;
    attempt(std::move(current), 0, context);
  }
  return id;
}

/// Ends when the last of its calls does: a failure, if none gave anything.
std::optional<LlmEnd> LlmCalls::gather(LlmEnd part) {
  const auto found = wholes_.find(part.id);
  if (found == wholes_.end()) return std::nullopt;
  Whole& whole = found->second;
  whole.end.id = part.id;
  add_spent(whole.end.spent, part.spent);
  for (LlmChoice& choice : part.choices) {
    whole.end.choices.push_back(std::move(choice));
  }
  if (part.failure) whole.end.failure = std::move(part.failure);
  if (--whole.left > 0) return std::nullopt;
  LlmEnd end = std::move(whole.end);
  wholes_.erase(found);
  if (!end.choices.empty()) end.failure = {};
  return end;
}

void LlmCalls::attempt(Open open, std::int64_t not_before_us,
                       Context& context) {
  const std::uint64_t effect =
      open.spent.calls == 0 && open.which == 0 ? open.first : next_++;
  const LlmProvider& provider = open.providers.at(open.which);
  std::int64_t input = kFrameTokens;
  for (const LlmPart& part : open.call.parts) {
    // A token is a byte at least.
    const auto text = context.blobs().get(part.blob);
    input += text ? static_cast<std::int64_t>(text->size()) : 0;
  }
  const std::int64_t output = open.call.samples * provider.max_output_tokens;
  open.tokens = input + output;
  open.micro_usd = cost_max(provider.prices, input, output);
  open.granted = false;
  open.asked_us = std::max(not_before_us, context.now_us());
  LlmCallRequest ask;
  ask.ticket = effect;
  ask.provider = provider.name;
  ask.group = open.call.group;
  ask.priority = open.call.priority;
  ask.tokens = open.tokens;
  ask.micro_usd = open.micro_usd;
  ask.ttl_ms = provider.wall_ms + kSlackMs;
  ask.not_before_us = not_before_us;
  context.send(address::broker, ask);
  open_[effect] = std::move(open);
}

LlmRequest LlmCalls::request(const Open& open, std::uint64_t effect) const {
  const LlmProvider& provider = open.providers.at(open.which);
  LlmRequest request;
  request.effect = effect;
  request.provider = provider.name;
  request.parts = open.call.parts;
  request.samples = open.call.samples;
  request.max_tokens = provider.max_output_tokens;
  request.temperature = provider.temperature;
  request.effort = provider.effort;
  request.purpose = open.call.purpose;
  request.wall_ms = provider.wall_ms;
  return request;
}

std::optional<LlmEnd> LlmCalls::receive(const Message& message,
                                        Context& context) {
  if (const auto* granted = std::get_if<LeaseGranted>(&message)) {
    const auto found = open_.find(granted->ticket);
    if (found == open_.end() || found->second.granted) return std::nullopt;
    Open& open = found->second;
    open.granted = true;
    open.spent.waited_ms +=
        std::max<std::int64_t>(0, context.now_us() - open.asked_us) / 1000;
    context.send(address::llm, request(open, granted->ticket));
    return std::nullopt;
  }
  if (const auto* reply = std::get_if<LlmReply>(&message)) {
    return replied(*reply, context);
  }
  if (const auto* denied = std::get_if<LlmCallDenied>(&message)) {
    auto node = open_.extract(denied->ticket);
    if (node.empty()) return std::nullopt;
    return failed(std::move(node.mapped()), {denied->code, denied->reason},
                  context);
  }
  if (const auto* expired = std::get_if<LeaseExpired>(&message)) {
    auto node = open_.extract(expired->ticket);
    if (node.empty()) return std::nullopt;
    Open open = std::move(node.mapped());
    context.send(address::llm, CancelEffect{expired->ticket, "too late"});
    ++open.spent.calls;
    open.spent.tokens += open.tokens;
    open.spent.micro_usd += open.micro_usd;
    return failed(std::move(open), {"expired", "no answer within the lease"},
                  context);
  }
  return std::nullopt;
}

std::optional<LlmEnd> LlmCalls::replied(const LlmReply& reply,
                                        Context& context) {
  auto node = open_.extract(reply.effect);
  if (node.empty() || !node.mapped().granted) return std::nullopt;
  Open open = std::move(node.mapped());
  LlmCallSettled settled;
  settled.ticket = reply.effect;
  settled.failure = reply.failure.code;
  settled.retry_after_ms = reply.failure.retry_after_ms;
  settled.limits = reply.limits;
  settled.free = reply.from_cache;
  if (reply.from_cache) {
    ++open.spent.from_cache;
  } else if (reply.usage.known) {
    settled.tokens = tokens_of(reply.usage);
    settled.micro_usd = reply.micro_usd;
  } else if (!reply.failure || reply.billed_maybe) {
    settled.tokens = open.tokens;
    settled.micro_usd = open.micro_usd;
  }
  context.send(address::broker, settled);
  ++open.spent.calls;
  open.spent.tokens += settled.tokens;
  open.spent.micro_usd += settled.micro_usd;
  if (reply.failure) return failed(std::move(open), reply.failure, context);
  if (open.cancelled) return std::nullopt;
  return gather({open.id, reply.choices, {}, open.spent});
}

std::optional<LlmEnd> LlmCalls::failed(Open open, const Failure& failure,
                                       Context& context) {
  if (open.cancelled) return std::nullopt;
  const bool too_long = failure.retry_after_ms > kRetryAfterMaxMs;
  if (may_pass(failure.code) && open.tries > 1 && !too_long) {
    const int failures = kTries - open.tries;
    --open.tries;
    const std::int64_t wait =
        std::max(failure.retry_after_ms,
                 wait_ms(failures, context.now_us(), open.first));
    const std::int64_t at_us = context.now_us() + wait * 1000;
    attempt(std::move(open), at_us, context);
    return std::nullopt;
  }
  if (open.which + 1 < open.providers.size()) {
    ++open.which;
    open.tries = kTries;
    attempt(std::move(open), 0, context);
    return std::nullopt;
  }
  Failure shown = failure;
  if (too_long) {
    shown.message += " (it asks to wait " +
                     std::to_string(failure.retry_after_ms / 1000) +
                     " s: not tried again)";
  }
  return gather({open.id, {}, shown, open.spent});
}

void LlmCalls::cancel(std::uint64_t id, const std::string& why,
                      Context& context) {
  wholes_.erase(id);
  for (auto next = open_.begin(); next != open_.end();) {
    const auto current = next++;
    if (current->second.id != id) continue;
    if (current->second.granted) {
      current->second.cancelled = true;  // its reply settles what it cost
      context.send(address::llm, CancelEffect{current->first, why});
      continue;
    }
    // Should it be allowed already, this gives it back.
    LlmCallSettled settled;
    settled.ticket = current->first;
    context.send(address::broker, settled);
    open_.erase(current);
  }
}

}  // namespace weft
