#include "actors/broker.hpp"

#include <algorithm>

namespace weft {
namespace {

constexpr int turn_max = 4;

}  // namespace

void Broker::receive(const Address& from, const Message& message,
                     Context& context) {
  if (const auto* m = std::get_if<Capacities>(&message)) {
    configure(*m, context);
  } else if (const auto* m = std::get_if<LeaseRequest>(&message)) {
    enqueue(from, *m, context);
  } else if (const auto* m = std::get_if<LeaseReleased>(&message)) {
    release({from, m->ticket}, context);
  } else if (const auto* m = std::get_if<TimerFired>(&message)) {
    expire(m->effect, context);
  }
}

void Broker::configure(const Capacities& capacities, Context& context) {
  queue_max_ = capacities.queue_max;
  for (const auto& [name, units] : capacities.units) {
    resources_[name].capacity = units;
    serve(name, context);
  }
}

void Broker::enqueue(const Address& from, const LeaseRequest& request,
                     Context& context) {
  const auto found = resources_.find(request.resource);
  if (found == resources_.end()) {
    context.send(from, LeaseDenied{request.ticket, "there is no resource '" +
                                                       request.resource + "'"});
    return;
  }
  if (waiting_ >= queue_max_) {
    context.send(from,
                 LeaseDenied{request.ticket,
                             std::to_string(queue_max_) +
                                 " requests wait already: the queue is full"});
    return;
  }
  const auto units =
      std::clamp<std::int64_t>(request.units, 1, found->second.capacity);
  found->second.queues[request.group].push_back(
      {{from, request.ticket}, units, request.ttl_ms});
  ++waiting_;
  serve(request.resource, context);
}

void Broker::release(const Ticket& ticket, Context& context) {
  const auto found = held_.find(ticket);
  if (found == held_.end()) return forget(ticket, context);
  const Held held = found->second;
  held_.erase(found);
  timers_.erase(held.timer);
  resources_[held.resource].used -= held.units;
  serve(held.resource, context);
}

/// It waits no longer. (Or it expired before, and its units are back.)
void Broker::forget(const Ticket& ticket, Context& context) {
  for (auto& [name, resource] : resources_) {
    for (auto queue = resource.queues.begin(); queue != resource.queues.end();
         ++queue) {
      const auto gone = std::erase_if(
          queue->second,
          [&](const Waiting& waiting) { return waiting.ticket == ticket; });
      if (gone == 0) continue;
      waiting_ -= gone;
      if (queue->second.empty()) resource.queues.erase(queue);
      // It may have been what the others waited behind.
      return serve(name, context);
    }
  }
}

void Broker::expire(std::uint64_t timer, Context& context) {
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;  // released in time
  const Ticket ticket = found->second;
  context.send(ticket.first, LeaseExpired{ticket.second});
  release(ticket, context);
}

Broker::Queue Broker::next_queue(Resource& resource) {
  const auto first = resource.queues.find(resource.blocked);
  if (first != resource.queues.end()) return first;
  const auto same = resource.queues.find(resource.last_group);
  if (same != resource.queues.end() && resource.turn < turn_max) return same;
  const auto next = resource.queues.upper_bound(resource.last_group);
  return next == resource.queues.end() ? resource.queues.begin() : next;
}

void Broker::serve(const std::string& name, Context& context) {
  Resource& resource = resources_[name];
  while (!resource.queues.empty()) {
    const Queue turn = next_queue(resource);
    const Waiting next = turn->second.front();
    resource.blocked = turn->first;
    if (resource.used + next.units > resource.capacity) return;
    resource.blocked.clear();
    const bool goes_on =
        turn->first == resource.last_group && resource.turn < turn_max;
    resource.turn = goes_on ? resource.turn + 1 : 1;
    resource.last_group = turn->first;
    turn->second.pop_front();
    if (turn->second.empty()) resource.queues.erase(turn);
    --waiting_;
    grant(name, next, context);
  }
}

void Broker::grant(const std::string& name, const Waiting& next,
                   Context& context) {
  resources_[name].used += next.units;
  const std::uint64_t timer = next_timer_++;
  held_[next.ticket] = Held{name, next.units, timer};
  timers_[timer] = next.ticket;
  context.send(next.ticket.first, LeaseGranted{next.ticket.second});
  context.send(address::clock, TimerRequest{timer, next.ttl_ms});
}

std::int64_t Broker::in_use(const std::string& resource) const {
  const auto found = resources_.find(resource);
  return found == resources_.end() ? 0 : found->second.used;
}

std::int64_t Broker::capacity(const std::string& resource) const {
  const auto found = resources_.find(resource);
  return found == resources_.end() ? 0 : found->second.capacity;
}

}  // namespace weft
