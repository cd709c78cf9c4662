#include "runtime/host/replay.hpp"

#include <utility>

#include "runtime/host/crash_handler.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/host/port.hpp"
#include "runtime/host/watched_blobs.hpp"

namespace weft {
namespace {

constexpr std::size_t kShownBytesMax = 400;

std::string describe(const Envelope& envelope) {
  std::string body = body_to_json(envelope.body);
  if (body.size() > kShownBytesMax) {
    body = body.substr(0, kShownBytesMax) + "…";
  }
  return envelope.type + " to " + envelope.dst + " " + body;
}

/// A body as this weft would write it. An older one wrote fewer fields; those
/// have their defaults, which mean what it did.
std::string body_now(const Envelope& envelope) {
  const auto message = decode(envelope.type, envelope.body);
  return message ? encode(*message) : envelope.body;
}

bool same_words(const Envelope& output, const Envelope& recorded) {
  return output.src == recorded.src && output.dst == recorded.dst &&
         output.type == recorded.type &&
         (output.body == recorded.body || output.body == body_now(recorded));
}

}  // namespace

std::string to_string(const Divergence& divergence) {
  return "event " + std::to_string(divergence.seq) + ", role " +
         divergence.role + "\n  the code says:    " + divergence.code_says +
         "\n  the journal says: " + divergence.journal_says;
}

std::vector<Envelope> to_envelopes(const Address& src, std::uint64_t cause,
                                   const std::vector<Outgoing>& outbox) {
  std::vector<Envelope> envelopes;
  envelopes.reserve(outbox.size());
  for (const Outgoing& outgoing : outbox) {
    Envelope& envelope = envelopes.emplace_back();
    envelope.cause = cause;
    envelope.src = src;
    envelope.dst = outgoing.dst;
    envelope.type = name_of(outgoing.message);
    envelope.body = encode(outgoing.message);
  }
  return envelopes;
}

Replay::Replay(Blobs& blobs, MakeRole make_role, ContentRule content_rule)
    : blobs_(blobs),
      make_role_(std::move(make_role)),
      content_rule_(content_rule) {}

bool Replay::feed(const Envelope& envelope) {
  const CrashScope scope(envelope);
  if (roles_.contains(envelope.src) && !said_before(envelope)) return false;
  if (is_request(envelope)) open_.emplace(envelope.seq, envelope);
  if (envelope.type == CancelEffect::name) cancels_.push_back(envelope);
  if (is_port(envelope.src) && envelope.dst != stale_address) {
    open_.erase(envelope.cause);
  }
  const bool to_user = envelope.dst == address::user;
  if (!to_user && !roles_.contains(envelope.dst)) {
    if (auto role = make_role_(envelope.dst)) {
      roles_[envelope.dst] = std::move(role);
    } else {
      return true;  // a port's or nobody's: nothing to decide
    }
  }
  if (to_user && envelope.type != RunFinished::name) return true;
  const auto message = decode(envelope.type, envelope.body);
  if (!message) {
    return diverge(envelope, envelope.dst, message.error().message,
                   describe(envelope));
  }
  if (!to_user) return handle(envelope, *message);
  finished_ = std::get<RunFinished>(*message);
  return true;
}

bool Replay::handle(const Envelope& envelope, const Message& message) {
  WatchedBlobs blobs(blobs_);
  Context context(blobs, envelope.at_us);
  roles_[envelope.dst]->receive(envelope.src, message, context);
  if (blobs.error()) {
    error_ = blobs.error();
    return false;
  }
  auto envelopes =
      to_envelopes(envelope.dst, envelope.seq, context.take_outbox());
  if (!envelopes.empty()) {
    expected_[envelope.seq] = {std::make_move_iterator(envelopes.begin()),
                               std::make_move_iterator(envelopes.end())};
  }
  return true;
}

bool Replay::said_before(const Envelope& envelope) {
  const auto found = expected_.find(envelope.cause);
  if (found == expected_.end()) {
    return diverge(envelope, envelope.src,
                   "nothing more on event " + std::to_string(envelope.cause),
                   describe(envelope));
  }
  const Envelope output = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) expected_.erase(found);
  if (same_words(output, envelope)) return true;
  const bool only_content = output.src == envelope.src &&
                            output.dst == envelope.dst &&
                            output.type == envelope.type;
  if (only_content && content_rule_ == ContentRule::recorded)
    return recall(output, envelope);
  diverge(envelope, envelope.src, describe(output), describe(envelope));
  divergence_->only_content = only_content;
  return false;
}

/// The numbers by which a role knows its own effects must be the same: answers
/// come under those of the journal.
bool Replay::recall(const Envelope& output, const Envelope& recorded) {
  const auto now = decode(output.type, output.body);
  const auto then = decode(recorded.type, recorded.body);
  if (!now || !then || effect_of(*now) != effect_of(*then)) {
    return diverge(recorded, recorded.src, describe(output),
                   describe(recorded));
  }
  roles_.at(recorded.src)->recall(*then);
  ++recalled_;
  return true;
}

bool Replay::finish() {
  if (expected_.empty()) return true;
  const auto& [cause, output] = *expected_.begin();
  Envelope missing = output.front();
  missing.seq = cause;
  return diverge(missing, missing.src, describe(missing),
                 "nothing more on event " + std::to_string(cause));
}

bool Replay::diverge(const Envelope& envelope, const Address& role,
                     std::string code, std::string journal) {
  divergence_ =
      Divergence{envelope.seq, role, std::move(code), std::move(journal)};
  return false;
}

const Role* Replay::find_role(const Address& address) const {
  const auto found = roles_.find(address);
  return found == roles_.end() ? nullptr : found->second.get();
}

std::map<Address, std::unique_ptr<Role>> Replay::take_roles() {
  return std::move(roles_);
}

std::vector<Envelope> Replay::take_missing() {
  std::vector<Envelope> missing;
  for (auto& [cause, output] : expected_) {
    for (Envelope& envelope : output) missing.push_back(std::move(envelope));
  }
  expected_.clear();
  return missing;
}

}  // namespace weft
