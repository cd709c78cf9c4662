#include "runtime/simulation/invariants.hpp"

#include <algorithm>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/role.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/host/port.hpp"

namespace weft {
namespace {

bool contains(const std::vector<Location>& locations,
              const Location& location) {
  return std::ranges::find(locations, location) != locations.end();
}

}  // namespace

std::string Invariants::take(const Envelope& envelope) {
  if (is_port(envelope.src) && envelope.dst != stale_address &&
      !answered_.insert(envelope.cause).second) {
    return "request " + std::to_string(envelope.cause) + " is answered twice";
  }
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return message.error().message;
  if (std::holds_alternative<RunFinished>(*message) && ++finished_ > 1) {
    return "the run ends twice";
  }
  handed_back(envelope, *message);
  std::string problem = llm_.take(envelope, *message);
  if (problem.empty()) problem = take_subgraph(*message);
  if (problem.empty()) problem = take_lease(envelope, *message);
  if (problem.empty()) problem = take_effect(envelope, *message);
  if (problem.empty()) problem = take_class(envelope, *message);
  return problem;
}

std::string Invariants::take_subgraph(const Message& message) {
  if (const auto* m = std::get_if<OptimizeSubgraph>(&message)) {
    verdicts_.try_emplace(m->subgraph, 0);
  } else if (const auto* m = std::get_if<VerifySeed>(&message)) {
    at_work_[m->subgraph] = m->location;
  } else if (const auto* m = std::get_if<SubgraphDone>(&message)) {
    if (++verdicts_[m->subgraph] > 1) {
      return "subgraph " + m->subgraph + " has two verdicts";
    }
    if (m->best.timed && m->best.location != at_work_[m->subgraph]) {
      return "the best kernel of " + m->subgraph + " was timed at " +
             location_name(m->best.location) + ", the others at " +
             location_name(at_work_[m->subgraph]);
    }
  }
  return "";
}

/// A location does only what it announced, and judges are of the run's class.
std::string Invariants::take_class(const Envelope& envelope,
                                   const Message& message) {
  if (const auto* m = std::get_if<RunStart>(&message)) {
    run_class_ = class_name(m->device_class);
  }
  if (run_class_.empty()) return "";
  const Location location = location_of(envelope.dst);
  const auto cannot = [&](const std::string& capability) {
    return location_name(location) + " is asked to " + capability +
           ", which it did not announce";
  };
  const bool judges = std::holds_alternative<CheckRequest>(message) ||
                      std::holds_alternative<TimeRequest>(message) ||
                      std::holds_alternative<ProbeRequest>(message);
  if (judges) {
    if (!announced(location, capability::judge)) {
      return cannot(capability::judge);
    }
    const std::string& own = announced_.at(location).device_class;
    if (own != run_class_) {
      return location_name(location) +
             " judges, and is of another class: " + own;
    }
  } else if (std::holds_alternative<CaptureRequest>(message)) {
    if (!announced(location, capability::capture)) {
      return cannot(capability::capture);
    }
  } else if (const auto* m = std::get_if<BuildRequest>(&message)) {
    const bool judges_there =
        std::ranges::any_of(announced_, [&](const auto& item) {
          return node_of(item.first) == node_of(location) &&
                 announced(item.first, capability::judge);
        });
    const std::string build = capability::build(m->target);
    if (!judges_there && !announced(location, build)) return cannot(build);
  } else if (const auto* m = std::get_if<SeedResult>(&message)) {
    if (m->device_class != run_class_) {
      return "a verdict on " + m->seed.id +
             " is of another class than the "
             "run's";
    }
  } else if (const auto* m = std::get_if<SubgraphDone>(&message)) {
    if (m->best.timed && m->best.device_class != run_class_) {
      return "the best kernel of " + m->subgraph +
             " was timed on another class than the run's";
    }
  }
  return "";
}

bool Invariants::announced(const Location& location,
                           const std::string& capability) const {
  const auto found = announced_.find(location);
  return found != announced_.end() &&
         has_capability(found->second.capabilities, capability);
}

std::string Invariants::take_lease(const Envelope& envelope,
                                   const Message& message) {
  if (envelope.src == address::broker) offer(envelope.cause);
  if (const auto* m = std::get_if<Capacities>(&message)) {
    if (envelope.dst == address::broker) offers_.emplace(envelope.seq, *m);
  } else if (const auto* m = std::get_if<NodeLost>(&message)) {
    if (envelope.dst != address::broker) return "";
    for (const Location& location : m->locations) {
      offers_.emplace(envelope.seq, Capacities{{}, 10'000, location});
    }
  } else if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    return asked({envelope.src, m->ticket}, *m);
  } else if (const auto* m = std::get_if<LeaseGranted>(&message)) {
    const Ticket ticket{envelope.dst, m->ticket};
    if (llm_.may_ask(ticket.first, ticket.second)) return "";
    return grant(ticket, m->location, envelope.cause);
  } else if (const auto* m = std::get_if<LeaseReleased>(&message)) {
    const auto asked = leases_.find({envelope.src, m->ticket});
    if (asked != leases_.end() && !asked->second.retained) {
      asked->second.withdrawn = envelope.seq;
    }
    give_back({envelope.src, m->ticket});
  } else if (const auto* m = std::get_if<LeaseExpired>(&message)) {
    if (!m->retained) give_back({envelope.dst, m->ticket});
  } else if (const auto* m = std::get_if<LeaseLost>(&message)) {
    give_back({envelope.dst, m->ticket});
    if (gone_locations_.contains(m->location)) {
      return location_name(m->location) + " left, and counts as lost";
    }
  }
  return "";
}

/// What ports are asked for, and what is stopped again.
std::string Invariants::take_effect(const Envelope& envelope,
                                    const Message& message) {
  if (!is_port(envelope.dst)) return "";
  const auto number = effect_of(message);
  const std::tuple effect{envelope.src, envelope.dst, number};
  if (std::holds_alternative<CancelEffect>(message)) {
    if (begun_.contains(effect)) return "";
    return envelope.src + " stops what it has not begun";
  }
  begun_.insert(effect);
  if (envelope.dst == address::clock) return "";
  if (llm_.may_ask(envelope.src, number)) return "";
  const auto lease = granted_.find({envelope.src, number});
  if (lease == granted_.end()) {
    return envelope.src + " asks " + envelope.dst + " without a lease";
  }
  const Location& location = lease->second.location;
  if (location != location_of(envelope.dst)) {
    return envelope.src + " has a lease at " + location_name(location) +
           ", and asks " + envelope.dst;
  }
  if (std::holds_alternative<TimeRequest>(message) && !lease->second.is_whole) {
    return "a kernel is timed beside others at " + location_name(location);
  }
  return "";
}

void Invariants::offer(std::uint64_t heard) {
  while (!offers_.empty() && offers_.begin()->first <= heard) {
    const Capacities offer = offers_.extract(offers_.begin()).mapped();
    std::erase_if(capacity_, [&](const auto& item) {
      return item.first.second == offer.location;
    });
    gone_locations_.erase(offer.location);
    const bool is_there = std::ranges::any_of(
        offer.units, [](const auto& item) { return item.second > 0; });
    if (is_there) announced_[offer.location] = offer;
    for (const auto& [name, units] : offer.units) {
      if (units > 0) {
        capacity_[{name, offer.location}] = units;
      } else if (gone_locations_.insert(offer.location).second) {
        give_back_all(offer.location);
      }
    }
  }
}

std::string Invariants::asked(const Ticket& ticket,
                              const LeaseRequest& request) {
  const auto went_down =
      std::ranges::count_if(request.avoid, [&](const Location& location) {
        return !left_.contains({ticket.first, location});
      });
  if (went_down > 1) {
    return "work of " + ticket.first +
           " is taken to a third place after two went down with it";
  }
  Lease lease;
  lease.request = request;
  leases_[ticket] = std::move(lease);
  return "";
}

void Invariants::handed_back(const Envelope& envelope, const Message& message) {
  if (!is_port(envelope.src)) return;
  std::visit(
      [&](const auto& reply) {
        if constexpr (requires { reply.failure.code; }) {
          if (reply.failure.code != "node_lost") return;
          left_.insert({envelope.dst, location_of(envelope.src)});
        }
      },
      message);
}

std::string Invariants::grant(const Ticket& ticket, const Location& location,
                              std::uint64_t cause) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end()) return "a lease is granted that nobody asked for";
  Lease& lease = found->second;
  if (lease.retained) return "a lease is granted twice";
  if (lease.withdrawn > 0) {
    if (cause > lease.withdrawn) return "a withdrawn lease is granted";
    // They crossed: the broker has what it granted back already.
    leases_.erase(found);
    return "";
  }
  const LeaseRequest& request = lease.request;
  const Pool pool{request.resource, location};
  if (!capacity_.contains(pool)) {
    return "a lease of " + request.resource + " is granted at " +
           location_name(location) + ", which offers none";
  }
  const bool may = (request.locations.empty() && request.capability.empty()) ||
                   contains(request.locations, location) ||
                   announced(location, request.capability);
  if (!may || contains(request.avoid, location)) {
    return "a lease is granted at " + location_name(location) +
           ", where it was not asked for";
  }
  lease.retained = true;
  lease.location = location;
  lease.units = std::min(request.units, capacity_[pool]);
  lease.is_whole = lease.units == capacity_[pool];
  const Pool memory{gpu_memory, location};
  if (capacity_.contains(memory)) {
    lease.memory = std::min(request.memory_bytes, capacity_[memory]);
  }
  granted_[ticket] = lease;
  std::string problem = use(request.resource, location, lease.units);
  if (problem.empty() && lease.memory > 0) {
    problem = use(gpu_memory, location, lease.memory);
  }
  return problem;
}

std::string Invariants::use(const std::string& resource,
                            const Location& location, std::int64_t units) {
  const Pool pool{resource, location};
  used_[pool] += units;
  if (used_[pool] <= capacity_[pool]) return "";
  return std::to_string(used_[pool]) + " units of " + resource + " at " +
         location_name(location) + " are leased, there are " +
         std::to_string(capacity_[pool]);
}

/// No message is sent: the holder of a lease hears from its port that the
/// location left.
void Invariants::give_back_all(const Location& location) {
  std::vector<Ticket> retained;
  for (const auto& [ticket, lease] : leases_) {
    if (lease.retained && lease.location == location)
      retained.push_back(ticket);
  }
  for (const Ticket& ticket : retained) give_back(ticket);
}

void Invariants::give_back(const Ticket& ticket) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end() || !found->second.retained) return;
  const Lease& lease = found->second;
  used_[{lease.request.resource, lease.location}] -= lease.units;
  used_[{gpu_memory, lease.location}] -= lease.memory;
  leases_.erase(found);
}

std::string Invariants::at_end() const {
  if (finished_ != 1) return "the run did not end";
  return "";
}

}  // namespace weft
