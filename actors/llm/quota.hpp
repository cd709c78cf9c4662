// Who may ask a language model now: calls at once, requests and tokens a
// minute, and budgets of money and tokens for a run and each of its subgraphs.
// What a call can cost at most is reserved when it is allowed and settled when
// it is over, so that no limit is exceeded at any moment. Pure: time is given.
//
// Calls at once adapt: one more after a window of good ones, half of them after
// a refusal or an overload, never more than the user allows.
//
// A call's minute counts from when it is allowed, and the provider's from when
// it arrives: of two calls, the first may be longer under way than the second.
// So a minute lasts longer by a time of grace, and calls are paced, lest many
// be under way together: a burst, then the rest evenly (a token bucket that a
// minute with its grace fills, as the generic cell rate algorithm keeps it).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/llm.hpp"

namespace weft {

class LlmQuota {
 public:
  using Ticket = std::pair<Address, std::uint64_t>;  // holder, its number

  struct Granted {
    Ticket ticket;
    std::int64_t ttl_ms = 0;
    std::string group;
    std::string provider;
    std::int64_t waited_us = 0;
    bool waiting_reported = false;  ///< that it waits
  };
  struct Denied {
    Ticket ticket;
    std::string code;  ///< as in LlmCallDenied
    std::string reason;
  };
  /// A request that waits, and is told so once.
  struct Waits {
    std::string group;
    std::string reason;          ///< "for mini: its requests a minute"
    std::int64_t until_us = -1;  ///< below 0: until another call has ended
  };
  /// What can be said now, in this order.
  struct Decisions {
    std::vector<Granted> granted;
    std::vector<Denied> denied;
    std::vector<Waits> waits;
    std::optional<std::int64_t> again_us;  ///< when time alone changes it
  };

  /// Requests that may wait: beyond these they are denied ("full").
  static constexpr std::size_t kWaitingMax = 10'000;
  /// A wait that a person would notice: a shorter one is not told.
  static constexpr std::int64_t kNoticedUs = 1'000'000;
  /// The calls that may come at once however small a limit is: so few arrive
  /// together, and spread over a minute they would only be late.
  static constexpr std::int64_t kBurstMin = 8;
  /// The part of a minute's calls that may come at once is one in so many.
  static constexpr std::int64_t kBurstPart = 25;
  /// Who waits gains a step of priority in so long: nobody starves.
  static constexpr std::int64_t kAgingUs = 60'000'000;
  /// Who has waited so long goes before all that came later to its provider:
  /// else small calls might for ever take the tokens that a large one waits
  /// for.
  static constexpr std::int64_t kPatienceUs = 120'000'000;

  void allow(const LlmOptions& options);
  void ask(const Ticket& ticket, const LlmCallRequest& request,
           std::int64_t now_us);
  /// False: that ticket holds nothing.
  bool settle(const Ticket& ticket, const LlmCallSettled& how,
              std::int64_t now_us);
  /// No word of the call: what it could cost at most counts as spent.
  bool expire(const Ticket& ticket, std::int64_t now_us);
  /// It waits no longer.
  void forget(const Ticket& ticket);
  Decisions serve(std::int64_t now_us);

  /// For tests, invariants and reports.
  int at_once(const std::string& provider) const;
  std::int64_t reserved_micro_usd() const { return run_.reserved_micro_usd; }
  std::int64_t spent_micro_usd() const { return run_.spent_micro_usd; }
  std::int64_t spent_tokens() const { return run_.spent_tokens; }

  /// As Role::describe: who is asked, who waits, what is spent.
  nlohmann::json describe() const;

 private:
  struct Budget {
    std::int64_t spent_micro_usd = 0;
    std::int64_t spent_tokens = 0;
    std::int64_t reserved_micro_usd = 0;
    std::int64_t reserved_tokens = 0;
  };
  struct Minute {  ///< a call of the last minute
    std::int64_t at_us = 0;
    std::int64_t tokens = 0;
    Ticket ticket;
  };
  struct Provider {
    LlmProvider what;
    int used = 0;
    double window = 1;  ///< calls at once that it seems to bear
    std::int64_t halved_us = -1;
    std::int64_t blocked_until_us = 0;
    std::deque<Minute> minute;
    /// At an even pace, what was allowed so far would be over then.
    std::int64_t requests_paced_us = 0;
    std::int64_t tokens_paced_us = 0;
    LlmHeaderLimits reported_limits;
    std::int64_t requests_reset_us = 0;  ///< until then the remaining counts
    std::int64_t tokens_reset_us = 0;
    std::string closed;  ///< no call ever again, and why
  };
  struct Waiting {
    Ticket ticket;
    LlmCallRequest request;
    std::int64_t since_us = 0;
    std::uint64_t number = 0;
    bool waiting_reported = false;
  };
  struct Lease {
    std::string provider;
    std::string group;
    std::int64_t tokens = 0;
    std::int64_t micro_usd = 0;
    std::int64_t granted_us = 0;
  };
  enum class Fit { now, later, never };
  struct Answer {
    Fit fit = Fit::now;
    std::int64_t at_us = -1;  ///< later, by time alone; below 0: not known
    std::string code;
    std::string reason;
  };

  Answer fits(const Waiting& waiting, std::int64_t now_us);
  Answer fits_budget(const LlmCallRequest& request) const;
  Answer fits_rate(Provider& provider, const LlmCallRequest& request,
                   std::int64_t now_us);
  static std::int64_t paced_until(const Provider& provider,
                                  const LlmCallRequest& request);
  void grant(const Waiting& waiting, std::int64_t now_us);
  void release(const Lease& lease, std::int64_t tokens, std::int64_t micro_usd);
  void learn(Provider& provider, const Lease& lease, const LlmCallSettled& how,
             std::int64_t now_us);
  std::optional<std::size_t> next(std::int64_t now_us, Decisions& decisions);
  void report_waits(std::int64_t now_us, Decisions& decisions);

  LlmOptions options_;
  std::map<std::string, Provider> providers_;
  std::vector<Waiting> waiting_;  ///< in the order in which they came
  std::map<Ticket, Lease> leases_;
  Budget run_;
  std::map<std::string, Budget> groups_;
  std::map<std::string, std::uint64_t> served_;  ///< by group: when last
  std::vector<Denied> denied_;
  std::uint64_t next_number_ = 1;
  std::uint64_t next_served_ = 1;
};

}  // namespace weft
