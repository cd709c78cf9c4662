#include "runtime/simulation/invariants.hpp"

#include <algorithm>

#include "actors/role.hpp"
#include "runtime/host/effect_ledger.hpp"

namespace weft {

std::string Invariants::take(const Envelope& envelope) {
  if (is_port(envelope.src) && envelope.dst != stale_address &&
      !answered_.insert(envelope.cause).second) {
    return "request " + std::to_string(envelope.cause) + " is answered twice";
  }
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return message.error().message;
  if (const auto* m = std::get_if<OptimizeSubgraph>(&*message)) {
    verdicts_.try_emplace(m->subgraph, 0);
  }
  if (const auto* m = std::get_if<SubgraphDone>(&*message)) {
    if (++verdicts_[m->subgraph] > 1) {
      return "subgraph " + m->subgraph + " has two verdicts";
    }
  }
  if (std::holds_alternative<RunFinished>(*message) && ++finished_ > 1) {
    return "the run ends twice";
  }
  return take_lease(envelope, *message);
}

std::string Invariants::take_lease(const Envelope& envelope,
                                   const Message& message) {
  if (const auto* m = std::get_if<Capacities>(&message)) {
    capacity_ = m->units;
  } else if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    const std::int64_t units = std::min(m->units, capacity_[m->resource]);
    leases_[{envelope.src, m->ticket}] = {m->resource, units, false};
  } else if (const auto* m = std::get_if<LeaseGranted>(&message)) {
    return grant({envelope.dst, m->ticket});
  } else if (const auto* m = std::get_if<LeaseReleased>(&message)) {
    give_back({envelope.src, m->ticket});
  } else if (const auto* m = std::get_if<LeaseExpired>(&message)) {
    give_back({envelope.dst, m->ticket});
  }
  return "";
}

std::string Invariants::grant(const Ticket& ticket) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end()) return "a lease is granted that nobody asked for";
  Lease& lease = found->second;
  if (lease.held) return "a lease is granted twice";
  lease.held = true;
  used_[lease.resource] += lease.units;
  if (used_[lease.resource] <= capacity_[lease.resource]) return "";
  return std::to_string(used_[lease.resource]) + " units of " + lease.resource +
         " are leased, there are " + std::to_string(capacity_[lease.resource]);
}

void Invariants::give_back(const Ticket& ticket) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end() || !found->second.held) return;
  used_[found->second.resource] -= found->second.units;
  leases_.erase(found);
}

std::string Invariants::at_end() const {
  if (finished_ != 1) return "the run did not end";
  return "";
}

}  // namespace weft
