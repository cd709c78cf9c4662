#include "actors/pending_effects.hpp"

#include <algorithm>

namespace weft {
namespace {

/// Where the failure does not say when to ask again.
constexpr std::int64_t kRetryMs = 1'000;
constexpr std::int64_t kRetryMsMax = 600'000;
/// Some days of asking each minute: then nobody will ever have time for it.
constexpr int kOverloadsMax = 5'000;
/// A third location is not risked.
constexpr int kLocationsLostMax = 2;
/// No run has this many locations that leave with the same work.
constexpr std::size_t kLocationsLeftMax = 64;

void set_effect(Message& message, std::uint64_t effect) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.effect; }) m.effect = effect;
      },
      message);
}

/// What is missing may be back, too: a process that could not start, say.
bool may_pass(const Failure& failure) {
  static const char* const final_codes[] = {
      "wrong_input", "refused", "cancelled", "node_lost", "disk_full"};
  return failure &&
         std::ranges::find(final_codes, failure.code) == std::end(final_codes);
}

/// A port's reply, taken apart; nullopt for anything else.
struct ReplyParts {
  std::uint64_t effect = 0;
  Failure failure;
};

std::optional<ReplyParts> reply_parts(const Message& message) {
  return std::visit(
      [](const auto& m) -> std::optional<ReplyParts> {
        if constexpr (requires {
                        m.effect;
                        m.failure;
                      }) {
          return ReplyParts{m.effect, m.failure};
        } else {
          return std::nullopt;
        }
      },
      message);
}

}  // namespace

std::uint64_t PendingEffects::start(const Address& port, Message request,
                                    const LeaseTerms& terms, Context& context,
                                    int tries) {
  const std::uint64_t id = next_++;
  Open open;
  open.id = id;
  open.port = port;
  open.request = std::move(request);
  open.terms = terms;
  open.tries = tries;
  attempt(std::move(open), id, context);
  return id;
}

std::uint64_t PendingEffects::timer(std::int64_t after_ms, Context& context) {
  const std::uint64_t number = next_++;
  context.send(address::clock, TimerRequest{number, after_ms});
  return number;
}

void PendingEffects::attempt(Open open, std::uint64_t effect,
                             Context& context) {
  set_effect(open.request, effect);
  open.state = State::waiting;
  LeaseRequest lease;
  lease.ticket = effect;
  lease.resource = open.terms.resource;
  lease.units = open.terms.units;
  lease.group = open.terms.group;
  lease.ttl_ms = open.terms.ttl_ms;
  lease.locations = open.terms.locations;
  lease.avoid = open.avoid;
  lease.priority = open.terms.priority;
  lease.memory_bytes = open.terms.memory_bytes;
  lease.expected_gain = open.terms.expected_gain;
  lease.capability = open.terms.capability;
  lease.wait_ms = open.terms.wait_ms;
  context.send(address::broker, std::move(lease));
  open_[effect] = std::move(open);
}

std::optional<EffectResult> PendingEffects::receive(const Message& message,
                                                    Context& context) {
  if (const auto* granted = std::get_if<LeaseGranted>(&message)) {
    const auto found = open_.find(granted->ticket);
    if (found == open_.end()) return std::nullopt;
    Open& open = found->second;
    if (open.state != State::waiting) return std::nullopt;
    open.state = State::working;
    open.location = granted->location;
    context.send(address::at(open.port, open.location), open.request);
    return std::nullopt;
  }
  if (const auto* denied = std::get_if<LeaseDenied>(&message)) {
    return finish(
        denied->ticket,
        {denied->location_lost ? "node_lost" : "refused", denied->reason},
        std::nullopt, context);
  }
  if (const auto* expiry = std::get_if<LeaseExpired>(&message)) {
    return expired(*expiry, context);
  }
  if (const auto* loss = std::get_if<LeaseLost>(&message)) {
    return locations_lost(*loss, context);
  }
  if (const auto* fired = std::get_if<TimerFired>(&message)) {
    const auto found = open_.find(fired->effect);
    if (found == open_.end() || found->second.state != State::resting) {
      return std::nullopt;
    }
    attempt(std::move(open_.extract(found).mapped()), next_++, context);
    return std::nullopt;
  }
  const auto parts = reply_parts(message);
  if (!parts) return std::nullopt;
  return replied(parts->effect, parts->failure, message, context);
}

std::optional<EffectResult> PendingEffects::expired(const LeaseExpired& expiry,
                                                    Context& context) {
  const auto found = open_.find(expiry.ticket);
  if (found == open_.end()) return std::nullopt;
  if (expiry.retained) {
    if (found->second.state == State::working) {
      stop(found, "its time is up", context);
    }
    return std::nullopt;
  }
  return finish(expiry.ticket,
                {"expired", "no answer from the port within the lease"},
                std::nullopt, context);
}

/// The work went with its location: another may do it.
std::optional<EffectResult> PendingEffects::locations_lost(
    const LeaseLost& loss, Context& context) {
  auto node = open_.extract(loss.ticket);
  if (node.empty()) return std::nullopt;
  Open& open = node.mapped();
  open.avoid.push_back(loss.location);
  if (++open.locations_lost < kLocationsLostMax && open.is_wanted) {
    attempt(std::move(open), next_++, context);
    return std::nullopt;
  }
  return EffectResult{open.id,
                      std::nullopt,
                      {"node_lost", loss.reason},
                      loss.location,
                      open.locations_lost};
}

std::optional<EffectResult> PendingEffects::replied(std::uint64_t effect,
                                                    Failure failure,
                                                    const Message& reply,
                                                    Context& context) {
  const auto found = open_.find(effect);
  if (found == open_.end()) return std::nullopt;
  Open& open = found->second;
  if (open.state != State::working && open.state != State::stopping) {
    return std::nullopt;
  }
  context.send(address::broker, LeaseReleased{effect});
  if (failure.code == "overloaded" && open.is_wanted &&
      ++open.overloads <= kOverloadsMax) {
    const std::int64_t after_ms =
        failure.retry_after_ms > 0 ? failure.retry_after_ms : kRetryMs;
    rest(found, std::min(after_ms, kRetryMsMax), context);
    return std::nullopt;
  }
  // Nobody knows what filled the disk: it may be this. The location has made
  // room since, or the broker knows that it is gone.
  if (failure.code == "disk_full" &&
      ++open.locations_lost < kLocationsLostMax && open.is_wanted) {
    attempt(std::move(open_.extract(found).mapped()), next_++, context);
    return std::nullopt;
  }
  // Its location left, and the work had no part in that.
  if (failure.code == "node_lost" && open.is_wanted &&
      open.avoid.size() < kLocationsLeftMax) {
    move_on(found, context);
    return std::nullopt;
  }
  // Stopped because its time was up, and not because nobody wants it.
  if (failure.code == "cancelled" && open.is_wanted) {
    failure = {"expired", "no answer from the port within the lease"};
  }
  return finish(effect, std::move(failure), reply, context);
}

/// To another location, as if it had not been begun.
void PendingEffects::move_on(Entry entry, Context& context) {
  Open open = std::move(open_.extract(entry).mapped());
  open.avoid.push_back(open.location);
  attempt(std::move(open), next_++, context);
}

/// Its number is the timer's from here on: a late word of the try before is
/// not taken for the next one's.
void PendingEffects::rest(Entry entry, std::int64_t after_ms,
                          Context& context) {
  Open open = std::move(entry->second);
  open_.erase(entry);
  open.state = State::resting;
  open_[timer(after_ms, context)] = std::move(open);
}

void PendingEffects::stop(Entry entry, const std::string& reason,
                          Context& context) {
  Open& open = entry->second;
  open.state = State::stopping;
  context.send(address::at(open.port, open.location),
               CancelEffect{entry->first, reason});
}

void PendingEffects::withdraw(Context& context) {
  for (auto next = open_.begin(); next != open_.end();) {
    withdraw(next++, context);
  }
}

void PendingEffects::withdraw(Entry entry, Context& context) {
  Open& open = entry->second;
  open.is_wanted = false;
  open.tries = 1;
  if (open.state == State::waiting) {
    // Should the lease be under way already, this gives it back.
    context.send(address::broker, LeaseReleased{entry->first});
  }
  if (open.state == State::waiting || open.state == State::resting) {
    open_.erase(entry);
  }
}

void PendingEffects::cancel(std::uint64_t id, const std::string& reason,
                            Context& context) {
  const auto entry = std::ranges::find_if(
      open_, [&](const auto& item) { return item.second.id == id; });
  if (entry == open_.end()) return;
  if (entry->second.state == State::working) stop(entry, reason, context);
  withdraw(entry, context);
}

void PendingEffects::cancel(const std::string& reason, Context& context) {
  withdraw(context);
  for (auto entry = open_.begin(); entry != open_.end(); ++entry) {
    if (entry->second.state == State::working) stop(entry, reason, context);
  }
}

void PendingEffects::recall(const Message& request) {
  const auto number = std::visit(
      [](const auto& m) -> std::uint64_t {
        if constexpr (requires { m.effect; }) {
          return m.effect;
        } else {
          return 0;
        }
      },
      request);
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  if (found->second.request.index() == request.index()) {
    found->second.request = request;
  }
}

std::optional<EffectResult> PendingEffects::finish(std::uint64_t effect,
                                                   Failure failure,
                                                   std::optional<Message> reply,
                                                   Context& context) {
  auto node = open_.extract(effect);
  if (node.empty()) return std::nullopt;
  Open& open = node.mapped();
  if (open.tries > 1 && may_pass(failure)) {
    --open.tries;
    attempt(std::move(open), next_++, context);
    return std::nullopt;
  }
  return EffectResult{open.id, std::move(reply), std::move(failure),
                      open.location, open.locations_lost};
}

}  // namespace weft
