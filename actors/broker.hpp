// Owns everything scarce as units of named resources. Requests queue; turns go
// round the groups, so that one subgraph with many seeds cannot starve another;
// a turn is a few requests long, as the next one for a subgraph finds ready
// what the last one needed. Within a group, first come first served. The
// request whose turn it is waits until enough units are free and nobody
// overtakes it, so a request for all units is served too. A lease that is not
// given back in time expires; one given back before it is granted is not waited
// for any more.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "actors/role.hpp"

namespace weft {

class Broker : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;

  /// For tests and invariants: units in use, and what there is.
  std::int64_t in_use(const std::string& resource) const;
  std::int64_t capacity(const std::string& resource) const;

 private:
  using Ticket = std::pair<Address, std::uint64_t>;  // holder, its number

  struct Waiting {
    Ticket ticket;
    std::int64_t units = 0;
    std::int64_t ttl_ms = 0;
  };
  struct Resource {
    std::int64_t capacity = 0;
    std::int64_t used = 0;
    std::map<std::string, std::deque<Waiting>> queues;  // by group
    std::string last_group;  // served last; the next in order is next
    int turn = 0;            // requests that it was served in a row
    std::string blocked;     // waits for units, and nobody overtakes it
  };
  using Queue = std::map<std::string, std::deque<Waiting>>::iterator;
  struct Held {
    std::string resource;
    std::int64_t units = 0;
    std::uint64_t timer = 0;
  };

  void configure(const Capacities& capacities, Context& context);
  void enqueue(const Address& from, const LeaseRequest& request,
               Context& context);
  void release(const Ticket& ticket, Context& context);
  void forget(const Ticket& ticket, Context& context);
  void expire(std::uint64_t timer, Context& context);
  void serve(const std::string& name, Context& context);
  static Queue next_queue(Resource& resource);
  void grant(const std::string& name, const Waiting& next, Context& context);

  std::map<std::string, Resource> resources_;
  std::map<Ticket, Held> held_;
  std::map<std::uint64_t, Ticket> timers_;
  std::uint64_t next_timer_ = 1;
  int waiting_ = 0;
  int queue_max_ = 10'000;
};

}  // namespace weft
