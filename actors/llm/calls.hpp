// Calls to language models that a role has under way: the broker is asked, then
// the port, then the broker is told what it cost. Several samples are as many
// calls where the provider gives one at a time, and end together. What may pass
// is tried again after a while; a provider that fails for good is followed by
// the next one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// What is asked.
struct LlmCall {
  std::string group;  ///< a subgraph's id
  int priority = 0;
  std::string purpose;
  std::vector<LlmPart> parts;
  int samples = 1;
};

/// How a call ended, whatever it took.
struct LlmEnd {
  std::uint64_t id = 0;
  std::vector<LlmChoice> choices;
  Failure failure;  ///< its code may be "budget", as LlmCallDenied has it
  LlmSpent spent;
};

class LlmCalls {
 public:
  /// Tries of one provider, and the longest wait that a provider may ask for.
  static constexpr int kTries = 4;
  static constexpr std::int64_t kRetryAfterMaxMs = 120'000;

  /// Where the numbers of a role begin that has effects, too: the broker knows
  /// both by number.
  static constexpr std::uint64_t kFirstCallNumber = 1'000'000;

  /// `first`: its numbers begin there.
  explicit LlmCalls(std::uint64_t first = 1) : next_(first) {}

  std::uint64_t start(const LlmOptions& options, LlmCall call,
                      Context& context);

  /// Takes one message; returns how a call ended, if this ended one.
  std::optional<LlmEnd> receive(const Message& message, Context& context);

  /// Gives a call up: what the port works on is stopped. Nothing is told of it
  /// any more, but what it cost is.
  void cancel(std::uint64_t id, const std::string& why, Context& context);

  /// As Role::describe: an array, one object a call.
  nlohmann::json describe() const;

 private:
  struct Open {
    std::uint64_t id = 0;     ///< of the whole: several samples may be several
    std::uint64_t first = 0;  ///< effect of the first try
    LlmCall call;
    std::vector<LlmProvider> providers;
    std::size_t which = 0;
    int tries = kTries;  ///< left with this provider
    bool granted = false;
    bool cancelled = false;
    std::int64_t asked_us = 0;   ///< when the broker was, or may allow it
    std::int64_t tokens = 0;     ///< what it can take at most
    std::int64_t micro_usd = 0;  ///< and cost
    LlmSpent spent;
  };
  /// What calls that are one to who asked have brought so far.
  struct Whole {
    int left = 1;
    LlmEnd end;
  };
  void attempt(Open open, std::int64_t not_before_us, Context& context);
  std::optional<LlmEnd> gather(LlmEnd part);
  LlmRequest request(const Open& open, std::uint64_t effect) const;
  std::optional<LlmEnd> replied(const LlmReply& reply, Context& context);
  std::optional<LlmEnd> failed(Open open, const Failure& failure,
                               Context& context);

  std::map<std::uint64_t, Open> open_;     ///< by effect
  std::map<std::uint64_t, Whole> wholes_;  ///< by id
  std::uint64_t next_;
};

/// Adds what other calls took.
void add_spent(LlmSpent& all, const LlmSpent& more);

/// What a call can cost at most by those prices, in millionths of a dollar.
std::int64_t cost_max(const LlmPrices& prices, std::int64_t input_tokens,
                      std::int64_t output_tokens);

/// "0.0012 USD".
std::string dollars(std::int64_t micro_usd, int digits = 4);

}  // namespace weft
