// What a journal tells of scarce things: calls to language models, their tokens
// and cost, and who waited, or waits, for what and since when.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "messages/vocabulary.hpp"

namespace weft {

class WaitSummary {
 public:
  /// Takes each envelope of a journal in order.
  void take(const Envelope& envelope, const Message& message);

  /// For people. `is_over`: the run has ended, and nobody waits any more.
  std::string text(bool is_over) const;

  /// {"llm": {"NAME": …}, "llm_by_subgraph": {…}, "waited": {…}, "waiting":
  /// […]}
  nlohmann::json json(bool is_over) const;

 private:
  using Ticket = std::pair<Address, std::uint64_t>;
  struct Calls {
    int count = 0;
    int from_cache = 0;
    int without_usage = 0;
    std::map<std::string, int> failures;  ///< by code
    LlmUsage usage;
    std::int64_t tokens = 0;  ///< settled: those at worst case included
    std::int64_t micro_usd = 0;
    std::vector<std::int64_t> latency_ms;
    std::vector<std::int64_t> first_token_ms;
  };
  struct Waiting {
    std::string what;   ///< "gpu", "calls of mini"
    std::string group;  ///< a subgraph's id
    std::int64_t since_us = 0;
  };
  struct Waited {
    int times = 0;
    std::int64_t us = 0;
    std::int64_t longest_us = 0;
  };
  void begin(const Ticket& ticket, Waiting waiting);
  void end(const Ticket& ticket, std::int64_t at_us);

  std::map<Ticket, LlmCallRequest> asked_;
  std::map<Ticket, Waiting> waiting_;
  std::map<Ticket, Waiting> under_way_;   ///< calls without a reply
  std::map<std::string, Waited> waited_;  ///< by what
  std::map<std::string, Calls> providers_;
  std::map<std::string, Calls> groups_;
  std::int64_t last_us_ = 0;  ///< the last event's time
};

}  // namespace weft
