#include "actors/errands.hpp"

namespace weft {
namespace {

void set_effect(Message& message, std::uint64_t effect) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.effect; }) m.effect = effect;
      },
      message);
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

std::uint64_t Errands::start(const Address& port, Message request,
                             const LeaseTerms& terms, Context& context) {
  const std::uint64_t id = next_++;
  set_effect(request, id);
  open_[id] = Open{port, std::move(request)};
  context.send(address::broker, LeaseRequest{id, terms.resource, terms.units,
                                             terms.group, terms.ttl_ms});
  return id;
}

std::optional<ErrandEnd> Errands::receive(const Message& message,
                                          Context& context) {
  if (const auto* granted = std::get_if<LeaseGranted>(&message)) {
    const auto found = open_.find(granted->ticket);
    if (found == open_.end() || found->second.granted) return std::nullopt;
    found->second.granted = true;
    context.send(found->second.port, found->second.request);
    return std::nullopt;
  }
  if (const auto* denied = std::get_if<LeaseDenied>(&message)) {
    return finish(denied->ticket, {"refused", denied->reason});
  }
  if (const auto* expired = std::get_if<LeaseExpired>(&message)) {
    return finish(expired->ticket,
                  {"expired", "no answer from the port within the lease"});
  }
  const auto parts = reply_parts(message);
  if (!parts) return std::nullopt;
  const auto found = open_.find(parts->effect);
  if (found == open_.end() || !found->second.granted) return std::nullopt;
  context.send(address::broker, LeaseReleased{parts->effect});
  auto end = finish(parts->effect, parts->failure);
  end->reply = message;
  return end;
}

void Errands::withdraw(Context& context) {
  for (auto next = open_.begin(); next != open_.end();) {
    const auto errand = next++;
    if (errand->second.granted) continue;
    // Should the lease be under way already, this gives it back.
    context.send(address::broker, LeaseReleased{errand->first});
    open_.erase(errand);
  }
}

std::optional<ErrandEnd> Errands::finish(std::uint64_t id, Failure failure) {
  if (open_.erase(id) == 0) return std::nullopt;
  return ErrandEnd{id, std::nullopt, std::move(failure)};
}

}  // namespace weft
