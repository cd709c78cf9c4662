// What must hold in every run, checked from the journal alone: each request is
// answered at most once, leases stay within capacity, every subgraph ends in
// exactly one verdict, and the run ends once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

class Invariants {
 public:
  /// Takes the next journaled envelope; returns what it breaks, or "".
  std::string take(const Envelope& envelope);

  /// At the end of a run that finished.
  std::string at_end() const;

 private:
  using Ticket = std::pair<Address, std::uint64_t>;
  struct Lease {
    std::string resource;
    std::int64_t units = 0;
    bool held = false;
  };
  std::string take_lease(const Envelope& envelope, const Message& message);
  std::string grant(const Ticket& ticket);
  void give_back(const Ticket& ticket);

  std::set<std::uint64_t> answered_;
  std::map<std::string, std::int64_t> capacity_;
  std::map<std::string, std::int64_t> used_;
  std::map<Ticket, Lease> leases_;
  std::map<std::string, int> verdicts_;  ///< by subgraph
  int finished_ = 0;
};

}  // namespace weft
