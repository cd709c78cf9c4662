// Owns everything scarce as units of named resources, each at the locations
// that offer it.
//
// Order. Requests queue in groups. Turns go round the groups, so that one
// subgraph with many seeds cannot starve another. A turn is a few requests
// long, because the next request for a subgraph finds ready what the last one
// needed. Higher priorities go first, within groups and among them. Requests of
// the same priority go by their expected gain, and then by their age.
//
// Waiting. The request whose turn it is waits until enough units are free at
// one of its locations. No other request overtakes it there, so that a request
// for all units is served, too. The exception: in a search of limited time, a
// request with a higher expected gain does.
//
// Leases. A lease that is not given back in time expires. Its holder stops the
// work and gives the lease back, or loses it after the grace time. If a holder
// gives a request back before it is granted, the request leaves the queue. When
// a location or a node (NodeLost) is gone, all leases there are lost.
//
// Locations. A request names locations, or a capability that locations
// announce. A request may wait for such a location for a limited time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/llm/quota.hpp"
#include "actors/role.hpp"

namespace weft {

class Broker : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override;
  nlohmann::json describe() const override;

  /// For tests and invariants: units in use, and what there is.
  std::int64_t in_use(const std::string& resource,
                      const Location& location = "") const;
  std::int64_t capacity(const std::string& resource,
                        const Location& location = "") const;

 private:
  using Ticket = std::pair<Address, std::uint64_t>;  // holder, its number

  struct Waiting {
    Ticket ticket;
    LeaseRequest request;
    std::int64_t since_us = 0;
    bool waiting_reported = false;  // the user, that it waits
    std::uint64_t patience =
        0;  // timer of how long no location may do; 0: none
  };
  struct Pool {
    std::int64_t capacity = 0;
    std::int64_t used = 0;
    std::int64_t free() const { return capacity - used; }
  };
  struct Resource {
    std::map<Location, Pool> pools;
    std::map<std::string, std::deque<Waiting>> queues;  // by group
    std::string last_group;  // served last; the next in order is next
    int turn = 0;            // requests that it was served in a row
    // Groups whose next request waits for units there: nobody overtakes it.
    std::map<Location, std::string> reserved;
  };
  struct Lease {
    std::string resource;
    Location location;
    std::int64_t units = 0;
    std::int64_t memory = 0;
    std::uint64_t timer = 0;
    bool expired = false;
  };

  bool receive_llm(const Address& from, const Message& message,
                   Context& context);
  void serve_llm(Context& context);
  void configure(const Capacities& capacities, Context& context);
  void lose_node(const NodeLost& loss, Context& context);
  /// Why leases at a location end. `left`: by itself, and its port says so to
  /// their holders.
  struct Withdrawal {
    bool left = false;
    std::string reason;  ///< for people; empty: it no longer offers that
  };
  void lose(const Location& location, const std::string& resource,
            const Withdrawal& why, Context& context);
  void settle_waiting(Context& context);
  void deny_hopeless(Resource& resource, const std::string& name,
                     Context& context);
  void enqueue(const Address& from, const LeaseRequest& request,
               Context& context);
  void release(const Ticket& ticket, Context& context);
  void forget(const Ticket& ticket, Context& context);
  void expire(std::uint64_t timer, Context& context);
  void serve(const std::string& name, Context& context);
  void serve_all(Context& context);
  bool serve_one(const std::string& name, Context& context);
  std::vector<std::string> turns(const Resource& resource) const;
  void be_patient(Waiting& waiting, Context& context);
  void lose_patience(std::uint64_t timer, Context& context);
  bool will_do(const LeaseRequest& request, const Location& location) const;
  bool is_hopeless(const Resource& resource, const LeaseRequest& request) const;
  std::vector<Location> locations_for(const Resource& resource,
                                      const LeaseRequest& request) const;
  std::optional<Location> location_with_free_space(
      const Resource& resource, const std::vector<Location>& locations,
      const LeaseRequest& request, const std::string& group,
      const std::map<Location, std::string>& reserved) const;
  std::int64_t memory_of(const LeaseRequest& request,
                         const Location& location) const;
  void grant(const std::string& name, const Location& location,
             const Waiting& next, Context& context);
  std::uint64_t start_timer(const Ticket& ticket, std::int64_t after_ms,
                            Context& context);
  void report_waiting(const Ticket& ticket, const LeaseRequest& request,
                      Context& context);
  Pool* find_pool(const std::string& resource, const Location& location);

  std::map<std::string, Resource> resources_;
  std::map<Ticket, Lease> leases_;
  std::map<std::uint64_t, Ticket> timers_;
  std::map<std::uint64_t, Ticket> patience_;  ///< waits without a location
  std::map<Location, std::vector<std::string>> capabilities_;
  std::uint64_t next_timer_ = 1;
  int waiting_ = 0;
  int queue_max_ = 10'000;
  std::int64_t grace_ms_ = 0;
  LlmQuota llm_;
  std::map<std::uint64_t, Ticket> calls_;  ///< by the timer of their lease
  std::uint64_t llm_timer_ = 0;            ///< when to look again; 0: not set
  std::int64_t llm_again_us_ = 0;
};

}  // namespace weft
