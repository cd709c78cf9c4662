#include "actors/broker.hpp"

#include <algorithm>

#include "actors/device.hpp"
#include "actors/search_time.hpp"

namespace weft {
namespace {

constexpr int kTurnMax = 4;
/// A wait that a person would notice.
constexpr std::int64_t kNoticedWaitMs = 1'000;

bool contains(const std::vector<Location>& locations,
              const Location& location) {
  return std::ranges::find(locations, location) != locations.end();
}

/// The higher one goes first.
std::pair<int, std::int64_t> rank(const LeaseRequest& request) {
  return {request.priority, request.expected_gain};
}

/// It names what it had, none of which it offers any more: it went of its own
/// will, and its node hands back what was asked of it, whatever arrived there.
bool has_left(const Capacities& capacities) {
  return !capacities.units.empty() &&
         std::ranges::all_of(capacities.units,
                             [](const auto& item) { return item.second == 0; });
}

/// A location without units can do nothing.
std::vector<std::string> capabilities_told(const Capacities& capacities) {
  const bool is_there = std::ranges::any_of(
      capacities.units, [](const auto& item) { return item.second > 0; });
  return is_there ? capacities.capabilities : std::vector<std::string>();
}

}  // namespace

void Broker::receive(const Address& from, const Message& message,
                     Context& context) {
  if (receive_llm(from, message, context)) return;
  if (const auto* m = std::get_if<Capacities>(&message)) {
    configure(*m, context);
  } else if (const auto* m = std::get_if<NodeLost>(&message)) {
    lose_node(*m, context);
  } else if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    enqueue(from, *m, context);
  } else if (const auto* m = std::get_if<LeaseReleased>(&message)) {
    release({from, m->ticket}, context);
  } else if (const auto* m = std::get_if<TimerFired>(&message)) {
    expire(m->effect, context);
  }
}

/// What concerns calls of language models: false for everything else.
bool Broker::receive_llm(const Address& from, const Message& message,
                         Context& context) {
  const std::int64_t now_us = context.now_us();
  if (const auto* m = std::get_if<LlmAllowance>(&message)) {
    llm_.allow(m->options);
  } else if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
    llm_.ask({from, m->ticket}, *m, now_us);
  } else if (const auto* m = std::get_if<LlmCallSettled>(&message)) {
    std::erase_if(calls_, [&](const auto& item) {
      return item.second == Ticket{from, m->ticket};
    });
    if (!llm_.settle({from, m->ticket}, *m, now_us)) {
      llm_.forget({from, m->ticket});
    }
  } else if (const auto* m = std::get_if<TimerFired>(&message)) {
    const auto call = calls_.extract(m->effect);
    if (!call.empty()) {
      const Ticket& ticket = call.mapped();
      if (llm_.expire(ticket, now_us)) {
        context.send(ticket.first, LeaseExpired{ticket.second});
      }
    } else if (m->effect == llm_timer_) {
      llm_timer_ = 0;
    } else {
      return false;
    }
  } else {
    return false;
  }
  serve_llm(context);
  return true;
}

void Broker::serve_llm(Context& context) {
  const LlmQuota::Decisions decisions = llm_.serve(context.now_us());
  // First, so that the journal shows that none of these was passed over.
  for (const auto& [ticket, code, reason] : decisions.denied) {
    context.send(ticket.first, LlmCallDenied{ticket.second, code, reason});
  }
  for (const LlmQuota::Granted& granted : decisions.granted) {
    const std::uint64_t timer = next_timer_++;
    calls_[timer] = granted.ticket;
    context.send(granted.ticket.first, LeaseGranted{granted.ticket.second});
    context.send(address::clock, TimerRequest{timer, granted.ttl_ms});
    if (!granted.waiting_reported) continue;
    context.send(address::user, Progress{granted.group, "waited",
                                         seconds_text(granted.waited_us) +
                                             " for " + granted.provider});
  }
  for (const LlmQuota::Waits& wait : decisions.waits) {
    const std::string until =
        wait.until_us < 0
            ? ""
            : ", " + seconds_text(wait.until_us - context.now_us()) +
                  " at least";
    context.send(address::user,
                 Progress{wait.group, "waits", wait.reason + until});
  }
  if (!decisions.again_us) return;
  if (llm_timer_ != 0 && llm_again_us_ <= *decisions.again_us) return;
  llm_timer_ = next_timer_++;
  llm_again_us_ = *decisions.again_us;
  const std::int64_t wait_us = llm_again_us_ - context.now_us();
  context.send(address::clock,
               TimerRequest{llm_timer_,
                            std::max<std::int64_t>(1, (wait_us + 999) / 1000)});
}

void Broker::configure(const Capacities& capacities, Context& context) {
  const Location& location = capacities.location;
  capabilities_[location] = capabilities_told(capacities);
  if (location.empty()) {
    queue_max_ = capacities.queue_max;
    grace_ms_ = capacities.grace_ms;
  } else {
    // Who deals out the subgraphs has to know what there is to deal out to.
    Capacities answer = capacities;
    if (has_left(answer)) answer.units.clear();
    context.send(address::dispatcher, std::move(answer));
  }
  for (auto& [name, resource] : resources_) {
    const auto units = capacities.units.find(name);
    const bool offers = units != capacities.units.end() && units->second > 0;
    if (offers || !resource.pools.contains(location)) continue;
    resource.pools.erase(location);
    resource.reserved.erase(location);
    lose(location, name, {has_left(capacities), ""}, context);
  }
  for (const auto& [name, units] : capacities.units) {
    if (units > 0) resources_[name].pools[location].capacity = units;
  }
  settle_waiting(context);
}

/// All its locations go before anything is granted again: nothing is moved from
/// one of them to another.
void Broker::lose_node(const NodeLost& loss, Context& context) {
  context.send(address::dispatcher, loss);
  for (const Location& location : loss.locations) {
    capabilities_[location].clear();
    for (auto& [name, resource] : resources_) {
      if (resource.pools.erase(location) == 0) continue;
      resource.reserved.erase(location);
      lose(location, name,
           {false, "node " + loss.node + " is lost: " + loss.reason}, context);
    }
  }
  settle_waiting(context);
}

void Broker::settle_waiting(Context& context) {
  for (auto& [name, resource] : resources_) {
    deny_hopeless(resource, name, context);
  }
  serve_all(context);
}

/// The location no longer offers the resource: what is leased of it is gone,
/// and the work with it. Holders hear of one that left from its port: they must
/// not take it for one that their work brought down.
void Broker::lose(const Location& location, const std::string& resource,
                  const Withdrawal& why, Context& context) {
  std::vector<Ticket> lost_tickets;
  for (const auto& [ticket, lease] : leases_) {
    const bool is_its = lease.resource == resource ||
                        (resource == gpu_memory && lease.memory > 0);
    if (lease.location == location && is_its) lost_tickets.push_back(ticket);
  }
  for (const Ticket& ticket : lost_tickets) {
    const Lease lease = leases_.extract(ticket).mapped();
    timers_.erase(lease.timer);
    if (Pool* pool = find_pool(lease.resource, location))
      pool->used -= lease.units;
    if (Pool* pool = find_pool(gpu_memory, location))
      pool->used -= lease.memory;
    if (why.left) continue;
    context.send(
        ticket.first,
        LeaseLost{ticket.second, location,
                  why.reason.empty() ? location_name(location) +
                                           " no longer offers " + lease.resource
                                     : why.reason});
  }
}

/// Denies requests that no location can serve any more, unless they may wait
/// for one.
void Broker::deny_hopeless(Resource& resource, const std::string& name,
                           Context& context) {
  for (auto queue = resource.queues.begin(); queue != resource.queues.end();) {
    for (Waiting& waiting : queue->second) {
      if (waiting.request.wait_ms == 0) continue;
      if (is_hopeless(resource, waiting.request)) {
        be_patient(waiting, context);
      } else {
        patience_.erase(std::exchange(waiting.patience, 0));
      }
    }
    std::erase_if(queue->second, [&](const Waiting& waiting) {
      if (waiting.request.wait_ms > 0) return false;
      if (!is_hopeless(resource, waiting.request)) return false;
      context.send(waiting.ticket.first,
                   LeaseDenied{waiting.ticket.second,
                               "no place is left that offers " + name, true});
      --waiting_;
      return true;
    });
    queue =
        queue->second.empty() ? resource.queues.erase(queue) : std::next(queue);
  }
}

void Broker::enqueue(const Address& from, const LeaseRequest& request,
                     Context& context) {
  const bool is_patient = request.wait_ms > 0;
  if (is_patient) resources_.try_emplace(request.resource);
  const auto found = resources_.find(request.resource);
  if (found == resources_.end()) {
    context.send(from, LeaseDenied{request.ticket, "there is no resource '" +
                                                       request.resource + "'"});
    return;
  }
  Resource& resource = found->second;
  const bool is_without_location = is_hopeless(resource, request);
  if (is_without_location && !is_patient) {
    context.send(
        from,
        LeaseDenied{request.ticket,
                    "no place is left that offers " + request.resource, true});
    return;
  }
  if (waiting_ >= queue_max_) {
    context.send(from,
                 LeaseDenied{request.ticket,
                             std::to_string(queue_max_) +
                                 " requests wait already: the queue is full"});
    return;
  }
  auto& queue = resource.queues[request.group];
  const auto behind = std::ranges::find_if(queue, [&](const Waiting& other) {
    return rank(other.request) < rank(request);
  });
  const auto waiting =
      queue.insert(behind, {{from, request.ticket}, request, context.now_us()});
  if (is_without_location) be_patient(*waiting, context);
  ++waiting_;
  serve(request.resource, context);
  report_waiting({from, request.ticket}, request, context);
}

void Broker::release(const Ticket& ticket, Context& context) {
  const auto found = leases_.find(ticket);
  if (found == leases_.end()) return forget(ticket, context);
  const Lease lease = found->second;
  leases_.erase(found);
  timers_.erase(lease.timer);
  find_pool(lease.resource, lease.location)->used -= lease.units;
  if (lease.memory == 0) return serve(lease.resource, context);
  find_pool(gpu_memory, lease.location)->used -= lease.memory;
  serve_all(context);  // memory is shared by whatever runs at the location
}

/// It waits no longer. (Or it expired before, and its units are back.)
void Broker::forget(const Ticket& ticket, Context& context) {
  for (auto& [name, resource] : resources_) {
    for (auto queue = resource.queues.begin(); queue != resource.queues.end();
         ++queue) {
      const auto gone =
          std::erase_if(queue->second, [&](const Waiting& waiting) {
            if (waiting.ticket != ticket) return false;
            patience_.erase(waiting.patience);
            return true;
          });
      if (gone == 0) continue;
      waiting_ -= static_cast<int>(gone);
      if (queue->second.empty()) resource.queues.erase(queue);
      // It may have been what the others waited behind.
      return serve(name, context);
    }
  }
}

/// The first time, its holder is given time to have the work stopped: units
/// that still are at work are nobody else's. The second time they are.
void Broker::expire(std::uint64_t timer, Context& context) {
  if (patience_.contains(timer)) return lose_patience(timer, context);
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;  // released in time
  const Ticket ticket = found->second;
  Lease& lease = leases_.at(ticket);
  if (grace_ms_ > 0 && !lease.expired) {
    timers_.erase(found);
    lease.expired = true;
    context.send(ticket.first, LeaseExpired{ticket.second, true});
    lease.timer = start_timer(ticket, grace_ms_, context);
    return;
  }
  context.send(ticket.first, LeaseExpired{ticket.second});
  release(ticket, context);
}

/// The time that it may wait without a location begins, if it has not.
void Broker::be_patient(Waiting& waiting, Context& context) {
  if (waiting.patience != 0) return;
  waiting.patience = next_timer_++;
  patience_[waiting.patience] = waiting.ticket;
  context.send(address::clock,
               TimerRequest{waiting.patience, waiting.request.wait_ms});
}

/// No location came that could do it.
void Broker::lose_patience(std::uint64_t timer, Context& context) {
  const Ticket ticket = patience_.extract(timer).mapped();
  forget(ticket, context);
  context.send(ticket.first,
               LeaseDenied{ticket.second, "no node came that can do it", true});
}

void Broker::serve_all(Context& context) {
  for (const auto& [name, resource] : resources_) serve(name, context);
}

void Broker::serve(const std::string& name, Context& context) {
  while (serve_one(name, context)) {
  }
}

/// Grants what is next, if anything can be granted.
bool Broker::serve_one(const std::string& name, Context& context) {
  Resource& resource = resources_[name];
  std::map<Location, std::string> reserved;
  for (const std::string& group : turns(resource)) {
    auto& queue = resource.queues.at(group);
    const LeaseRequest& request = queue.front().request;
    const auto locations = locations_for(resource, request);
    const auto location =
        location_with_free_space(resource, locations, request, group, reserved);
    if (location) {
      const bool goes_on =
          group == resource.last_group && resource.turn < kTurnMax;
      resource.turn = goes_on ? resource.turn + 1 : 1;
      resource.last_group = group;
      std::erase_if(resource.reserved,
                    [&](const auto& item) { return item.second == group; });
      const Waiting next = std::move(queue.front());
      queue.pop_front();
      if (queue.empty()) resource.queues.erase(next.request.group);
      --waiting_;
      grant(name, *location, next, context);
      return true;
    }
    // It waits where most is free; others may have what is elsewhere.
    std::optional<Location> best;
    for (const Location& candidate : locations) {
      if (reserved.contains(candidate)) continue;
      if (!best || resource.pools.at(candidate).free() >
                       resource.pools.at(*best).free()) {
        best = candidate;
      }
    }
    if (best) reserved[*best] = group;
  }
  resource.reserved = std::move(reserved);
  return false;
}

/// The groups in the order in which their next requests are looked at: who
/// waits for units already, then by priority and worth, then in turn. Where
/// time is limited, who waits goes before those of its worth alone.
std::vector<std::string> Broker::turns(const Resource& resource) const {
  std::vector<std::string> order;
  const auto add = [&](const std::string& group) {
    if (resource.queues.contains(group) &&
        std::ranges::find(order, group) == order.end()) {
      order.push_back(group);
    }
  };
  for (const auto& [location, group] : resource.reserved) add(group);
  const auto ranked =
      std::ranges::stable_partition(order, [&](const std::string& group) {
        return resource.queues.at(group).front().request.expected_gain == 0;
      });
  const auto first = ranked.begin() - order.begin();
  if (resource.turn < kTurnMax) add(resource.last_group);
  for (auto next = resource.queues.upper_bound(resource.last_group);
       next != resource.queues.end(); ++next) {
    add(next->first);
  }
  for (const auto& [group, queue] : resource.queues) add(group);
  std::ranges::stable_sort(
      order.begin() + first, order.end(), std::ranges::greater(),
      [&](const std::string& group) {
        return rank(resource.queues.at(group).front().request);
      });
  return order;
}

bool Broker::will_do(const LeaseRequest& request,
                     const Location& location) const {
  if (contains(request.avoid, location)) return false;
  if (contains(request.locations, location)) return true;
  if (request.capability.empty()) return request.locations.empty();
  const auto offered = capabilities_.find(location);
  return offered != capabilities_.end() &&
         contains(offered->second, request.capability);
}

/// No location is left for it, however long it waits. Asked of all that wait
/// when a location comes or goes: there may be thousands of both.
bool Broker::is_hopeless(const Resource& resource,
                         const LeaseRequest& request) const {
  return std::ranges::none_of(resource.pools, [&](const auto& item) {
    return will_do(request, item.first);
  });
}

/// Where it could be served, were nobody else there.
std::vector<Location> Broker::locations_for(const Resource& resource,
                                            const LeaseRequest& request) const {
  std::vector<Location> locations;
  for (const auto& [location, pool] : resource.pools) {
    if (will_do(request, location)) locations.push_back(location);
  }
  return locations;
}

/// The one of them where most is free, if that is enough.
std::optional<Location> Broker::location_with_free_space(
    const Resource& resource, const std::vector<Location>& locations,
    const LeaseRequest& request, const std::string& group,
    const std::map<Location, std::string>& reserved) const {
  std::optional<Location> best;
  for (const Location& location : locations) {
    const Pool& pool = resource.pools.at(location);
    const auto others = reserved.find(location);
    if (others != reserved.end() && others->second != group) continue;
    const auto units =
        std::clamp<std::int64_t>(request.units, 1, pool.capacity);
    if (units > pool.free()) continue;
    const std::int64_t memory = memory_of(request, location);
    if (memory > 0 &&
        memory > resources_.at(gpu_memory).pools.at(location).free()) {
      continue;
    }
    // A location that builds for others goes first: the others also judge.
    const auto rank_of = [&](const Location& candidate) {
      return std::pair{!contains(request.locations, candidate),
                       resource.pools.at(candidate).free()};
    };
    if (!best || rank_of(location) > rank_of(*best)) best = location;
  }
  return best;
}

/// Device memory that it takes at the location: all, if that is not enough.
std::int64_t Broker::memory_of(const LeaseRequest& request,
                               const Location& location) const {
  const auto memory = resources_.find(gpu_memory);
  if (request.memory_bytes <= 0 || memory == resources_.end()) return 0;
  const auto pool = memory->second.pools.find(location);
  if (pool == memory->second.pools.end()) return 0;
  return std::min(request.memory_bytes, pool->second.capacity);
}

void Broker::grant(const std::string& name, const Location& location,
                   const Waiting& next, Context& context) {
  Pool& pool = resources_[name].pools[location];
  const auto units =
      std::clamp<std::int64_t>(next.request.units, 1, pool.capacity);
  const std::int64_t memory = memory_of(next.request, location);
  pool.used += units;
  if (memory > 0) {
    resources_[gpu_memory].pools[location].used += memory;
  }
  context.send(next.ticket.first, LeaseGranted{next.ticket.second, location});
  const auto timer = start_timer(next.ticket, next.request.ttl_ms, context);
  leases_[next.ticket] = Lease{name, location, units, memory, timer, false};
  const std::int64_t waited_us = context.now_us() - next.since_us;
  if (next.waiting_reported && waited_us >= kNoticedWaitMs * 1000) {
    context.send(address::user,
                 Progress{next.request.group, "waited",
                          seconds_text(waited_us) + " for " + name + " at " +
                              location_name(location)});
  }
}

std::uint64_t Broker::start_timer(const Ticket& ticket, std::int64_t after_ms,
                                  Context& context) {
  const std::uint64_t timer = next_timer_++;
  timers_[timer] = ticket;
  context.send(address::clock, TimerRequest{timer, after_ms});
  return timer;
}

/// Who waits for a device says so, once for all that waits behind it.
void Broker::report_waiting(const Ticket& ticket, const LeaseRequest& request,
                            Context& context) {
  Resource& resource = resources_.at(request.resource);
  const auto queue = resource.queues.find(request.group);
  if (queue == resource.queues.end()) return;
  Waiting& next = queue->second.front();
  if (next.ticket != ticket) return;
  const auto locations = locations_for(resource, request);
  if (locations.empty()) {
    context.send(address::user,
                 Progress{request.group, "waits",
                          "for a node that can " + request.capability});
    return;
  }
  const bool is_device = std::ranges::all_of(
      locations,
      [](const Location& location) { return !device_of(location).empty(); });
  if (!is_device) return;
  next.waiting_reported = true;
  context.send(
      address::user,
      Progress{request.group, "waits",
               "for " + request.resource + " at " +
                   (locations.size() == 1
                        ? location_name(locations.front())
                        : "one of " + std::to_string(locations.size()) +
                              " devices")});
}

Broker::Pool* Broker::find_pool(const std::string& resource,
                                const Location& location) {
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return nullptr;
  const auto pool = found->second.pools.find(location);
  return pool == found->second.pools.end() ? nullptr : &pool->second;
}

std::int64_t Broker::in_use(const std::string& resource,
                            const Location& location) const {
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return 0;
  const auto pool = found->second.pools.find(location);
  return pool == found->second.pools.end() ? 0 : pool->second.used;
}

std::int64_t Broker::capacity(const std::string& resource,
                              const Location& location) const {
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return 0;
  const auto pool = found->second.pools.find(location);
  return pool == found->second.pools.end() ? 0 : pool->second.capacity;
}

}  // namespace weft
