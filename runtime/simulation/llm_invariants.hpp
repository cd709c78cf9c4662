// What must hold of calls to language models in every run, from the journal
// alone: calls at once, requests and tokens a minute, budgets of the run and of
// each subgraph hold whenever a call is allowed, with all that those under way
// can cost at most; a provider's pause is kept; a call is made once, and only
// when it is allowed; who asked long before others does not wait behind them;
// an agent that has heard that its last location is gone asks no model; and for
// one that has stopped its calls, none is asked for or made.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

class LlmInvariants {
 public:
  /// Who asked so much later than another is not served before it.
  static constexpr std::int64_t kPatienceUs = 300'000'000;

  /// Takes each journaled envelope; returns what it breaks, or "".
  std::string take(const Envelope& envelope, const Message& message);

  /// Whether that role may ask port/llm with that number.
  bool may_ask(const Address& role, std::uint64_t number) const {
    return granted_.contains({role, number});
  }

 private:
  using Ticket = std::pair<Address, std::uint64_t>;
  struct Call {
    LlmCallRequest request;
    std::int64_t asked_us = 0;  ///< or from when it may be allowed
  };
  struct Minute {
    std::int64_t at_us = 0;
    std::int64_t tokens = 0;
    Ticket ticket;
  };
  struct Spent {
    std::int64_t tokens = 0;
    std::int64_t micro_usd = 0;
    std::int64_t reserved_tokens = 0;
    std::int64_t reserved_micro_usd = 0;
  };
  struct Pause {
    std::uint64_t heard = 0;  ///< the event that told the broker
    std::int64_t until_us = 0;
  };
  struct Provider {
    LlmProvider what;
    int used = 0;
    std::deque<Minute> minute;
    std::vector<Pause> pauses;
  };

  std::string take_agents(const Envelope& envelope, const Message& message);
  std::string take_call(const Envelope& envelope, const Message& message);
  std::string is_wanted(const std::string& group, std::uint64_t cause) const;
  std::string grant(const Ticket& ticket, const Envelope& envelope);
  std::string within_rates(Provider& provider, const Ticket& ticket,
                           const Call& call, std::int64_t now_us);
  std::string within_budgets(const LlmCallRequest& request);
  std::string in_turn(const Call& call) const;
  void settle(const Ticket& ticket, std::int64_t tokens, std::int64_t micro_usd,
              bool free);
  std::int64_t time_of(std::uint64_t event) const {
    return event == 0 || event > times_.size() ? 0 : times_[event - 1];
  }

  LlmOptions options_;
  std::vector<std::int64_t> times_;  ///< of all events
  std::map<std::string, Provider> providers_;
  std::map<Ticket, Call> waiting_;
  std::map<Ticket, Call> leases_;
  /// Whether the port has been asked, or must not be any more.
  std::map<Ticket, bool> granted_;
  Spent run_;
  std::map<std::string, Spent> groups_;
  /// By agent: where its kernels can be judged last, and the events that told
  /// it that this is gone, and the model's role that it wants nothing more.
  std::map<Address, Location> last_locations_;
  std::map<Address, std::string> last_workers_;  ///< Ends of their addresses.
  std::map<Address, std::uint64_t> heard_gone_;
  std::map<Address, std::uint64_t> stopped_;
};

}  // namespace weft
