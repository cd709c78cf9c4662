// Invariants of every run, checked from the journal alone:
//
// * Each request is answered at most once.
// * Leases stay within the resources of their location, and are granted only at
//   locations of the request.
// * An effect happens under a lease of the requester, at the lease's location.
// * Only work that was begun is stopped.
// * Work that two locations were lost with is not taken to a third. Locations
//   that left do not count.
// * All kernels of a subgraph are timed at one location.
// * Every subgraph ends in exactly one verdict, and the run ends once.
// * In a run with a timing class, each location does only what it announced.
//   Verdicts and timings come from that class.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/simulation/llm_invariants.hpp"

namespace weft {

class Invariants {
 public:
  /// Takes the next journaled envelope; returns what it breaks, or "".
  std::string take(const Envelope& envelope);

  /// At the end of a run that finished.
  std::string at_end() const;

 private:
  using Ticket = std::pair<Address, std::uint64_t>;
  using Pool = std::pair<std::string, Location>;  // resource, location
  struct Lease {
    LeaseRequest request;
    Location location;
    std::int64_t units = 0;
    std::int64_t memory = 0;
    bool is_whole = false;  ///< All that the location offers.
    bool retained = false;
    std::uint64_t withdrawn = 0;  ///< event that did it while it was waited for
  };
  std::string take_lease(const Envelope& envelope, const Message& message);
  std::string take_effect(const Envelope& envelope, const Message& message);
  std::string take_subgraph(const Message& message);
  std::string take_class(const Envelope& envelope, const Message& message);
  bool announced(const Location& location, const std::string& capability) const;
  std::string asked(const Ticket& ticket, const LeaseRequest& request);
  void handed_back(const Envelope& envelope, const Message& message);
  std::string grant(const Ticket& ticket, const Location& location,
                    std::uint64_t cause);
  std::string use(const std::string& resource, const Location& location,
                  std::int64_t units);
  void give_back(const Ticket& ticket);
  void offer(std::uint64_t heard);
  void give_back_all(const Location& location);

  std::set<std::uint64_t> answered_;
  /// By the event that told the broker: it knows them once it has heard it.
  std::multimap<std::uint64_t, Capacities> offers_;
  std::map<Pool, std::int64_t> capacity_;
  std::map<Pool, std::int64_t> used_;
  std::map<Ticket, Lease> leases_;
  std::map<Ticket, Lease> granted_;  ///< those that are over, too
  std::set<std::tuple<Address, Address, std::uint64_t>> begun_;
  std::set<std::pair<Address, Location>>
      left_;                                 ///< whose work, and where it was
  std::set<Location> gone_locations_;        ///< that offer nothing any more
  std::map<std::string, int> verdicts_;      ///< by subgraph
  std::map<std::string, Location> at_work_;  ///< by subgraph
  int finished_ = 0;
  std::string run_class_;                     ///< empty: the run has none
  std::map<Location, Capacities> announced_;  ///< last, while it was there
  LlmInvariants llm_;
};

}  // namespace weft
