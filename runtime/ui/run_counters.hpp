// What has been counted of a run so far, event by event: for the list of runs
// and for /metrics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "messages/envelope.hpp"
#include "messages/run.hpp"

namespace weft {

class RunCounters {
 public:
  /// Answers of a port, and how long they took.
  struct Answers {
    std::uint64_t count = 0;
    std::int64_t sum_us = 0;
  };

  void take(const Envelope& envelope);

  std::uint64_t events = 0;  ///< the number of the last one taken, too
  std::int64_t first_us = 0;
  std::int64_t last_us = 0;
  std::optional<RunStart> start;
  std::optional<RunFinished> finished;
  std::uint64_t stale = 0;
  std::size_t subgraphs = 0;                      ///< that an agent was given
  std::map<std::string, std::uint64_t> outcomes;  ///< of subgraphs
  std::map<std::string, std::uint64_t> verdicts;  ///< of seeds, by kind
  std::map<Address, Answers> answers;             ///< by port, without location
  std::map<Address, std::uint64_t> open;          ///< requests, likewise
  std::map<std::string, std::int64_t> tokens;     ///< by kind
  std::int64_t micro_usd = 0;

 private:
  void take_message(const Envelope& envelope);

  struct Asked {
    Address port;
    std::int64_t at_us = 0;
  };
  std::map<std::uint64_t, Asked> asked_;  ///< requests without a reply
  std::set<std::string> begun_;           ///< subgraphs
  std::set<std::string> done_;            ///< likewise
};

}  // namespace weft
