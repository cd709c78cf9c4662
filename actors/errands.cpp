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

/// What is missing may be back, too: a process that could not start, say.
bool may_pass(const Failure& failure) {
  return failure && failure.code != "wrong_input" && failure.code != "refused";
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
                             const LeaseTerms& terms, Context& context,
                             int tries) {
  const std::uint64_t id = next_++;
  attempt({id, port, std::move(request), terms, tries}, id, context);
  return id;
}

void Errands::attempt(Open open, std::uint64_t effect, Context& context) {
  set_effect(open.request, effect);
  context.send(address::broker,
               LeaseRequest{effect, open.terms.resource, open.terms.units,
                            open.terms.group, open.terms.ttl_ms});
  open_[effect] = std::move(open);
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
    return finish(denied->ticket, {"refused", denied->reason}, std::nullopt,
                  context);
  }
  if (const auto* expired = std::get_if<LeaseExpired>(&message)) {
    return finish(expired->ticket,
                  {"expired", "no answer from the port within the lease"},
                  std::nullopt, context);
  }
  const auto parts = reply_parts(message);
  if (!parts) return std::nullopt;
  const auto found = open_.find(parts->effect);
  if (found == open_.end() || !found->second.granted) return std::nullopt;
  context.send(address::broker, LeaseReleased{parts->effect});
  return finish(parts->effect, parts->failure, message, context);
}

void Errands::withdraw(Context& context) {
  for (auto next = open_.begin(); next != open_.end();) {
    const auto errand = next++;
    if (errand->second.granted) {
      errand->second.tries = 1;
      continue;
    }
    // Should the lease be under way already, this gives it back.
    context.send(address::broker, LeaseReleased{errand->first});
    open_.erase(errand);
  }
}

std::optional<ErrandEnd> Errands::finish(std::uint64_t effect, Failure failure,
                                         std::optional<Message> reply,
                                         Context& context) {
  auto node = open_.extract(effect);
  if (node.empty()) return std::nullopt;
  Open& open = node.mapped();
  if (open.tries > 1 && may_pass(failure)) {
    --open.tries;
    open.granted = false;
    attempt(std::move(open), next_++, context);
    return std::nullopt;
  }
  return ErrandEnd{open.id, std::move(reply), std::move(failure)};
}

}  // namespace weft
