// What roles and the port that asks language models say to each other, and how
// calls are allowed: who may be asked, at what price, within which limits and
// budget. Nothing secret travels here: the port alone knows addresses and keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/failure.hpp"
#include "messages/fields.hpp"

namespace weft {

/// Prices in millionths of a US dollar for a million tokens: 3 USD for a
/// million input tokens is 3'000'000. All 0: the model costs nothing.
struct LlmPrices {
  std::int64_t input = 0;
  std::int64_t cached = 0;         ///< input that the provider's cache had
  std::int64_t cache_written = 0;  ///< input that it keeps from now on
  std::int64_t output = 0;
  std::int64_t reasoning = 0;  ///< output that is not shown
  WEFT_FIELDS(input, cached, cache_written, output, reasoning)
  bool operator==(const LlmPrices&) const = default;
};

/// What a provider bears, as its user says. 0: nothing is known.
struct LlmLimits {
  int calls_at_once = 4;
  std::int64_t requests_per_minute = 0;
  std::int64_t tokens_per_minute = 0;
  /// How much longer one call may take to arrive than another. A call counts
  /// for a minute and so long, and calls are spread over that time. 0: neither,
  /// as in runs that were begun before this field was.
  std::int64_t grace_ms = 0;
  WEFT_FIELDS(calls_at_once, requests_per_minute, tokens_per_minute, grace_ms)
  bool operator==(const LlmLimits&) const = default;
};

/// A provider as far as a run must know it.
struct LlmProvider {
  std::string name;     ///< as in the settings and on the command line
  std::string dialect;  ///< "openai", "anthropic", "responses"
  std::string model;    ///< as the provider calls it
  LlmPrices prices;
  LlmLimits limits;
  std::int64_t max_output_tokens = 16'384;  ///< of one reply
  std::int64_t context_tokens = 0;          ///< prompt and reply; 0: not known
  double temperature = -1;                  ///< below 0: the provider's own
  std::string effort;                       ///< of reasoning; empty: its own
  bool native_samples = false;              ///< one call can give several
  std::int64_t wall_ms = 600'000;           ///< limit of one call
  std::vector<std::string> fallbacks;       ///< asked in turn when it fails
  WEFT_FIELDS(name, dialect, model, prices, limits, max_output_tokens,
              context_tokens, temperature, effort, native_samples, wall_ms,
              fallbacks)
  bool operator==(const LlmProvider&) const = default;
};

/// A text of config/prompts/ that the user has replaced.
struct PromptOverride {
  std::string prompt;  ///< "rules"
  std::string blob;
  WEFT_FIELDS(prompt, blob)
  bool operator==(const PromptOverride&) const = default;
};

/// LlmOptions::edition of new runs.
inline constexpr int kLlmEdition = 2;

/// What a user chooses of a run's language model. `name` empty: none is asked.
struct LlmOptions {
  std::string name;                      ///< the provider asked first
  std::vector<LlmProvider> providers;    ///< it and all that it falls back on
  int rounds = 4;                        ///< of refinement, for one subgraph
  int samples = 2;                       ///< first kernels of one subgraph
  std::int64_t budget_micro_usd = -1;    ///< of the run; below 0: no limit
  std::int64_t budget_tokens = -1;       ///< likewise, input and output
  std::int64_t subgraph_micro_usd = -1;  ///< of one subgraph
  std::int64_t subgraph_tokens = -1;
  std::string search = "greedy";  ///< or "beam:N": the N best are refined
  std::vector<PromptOverride> prompts;
  std::string prompts_folder{};  ///< where `prompts` were found; empty: nowhere
  bool group = false;  ///< the model proposes which calls are one subgraph
  bool fuse = false;   ///< it is asked for one kernel of neighbouring winners
  /// By which rules a search decides. 1: by absolute times, as runs that were
  /// begun before this field was. 2: by ratios of times of the same rounds.
  int edition = 1;
  WEFT_FIELDS(name, providers, rounds, samples, budget_micro_usd, budget_tokens,
              subgraph_micro_usd, subgraph_tokens, search, prompts,
              prompts_folder, group, fuse, edition)
  bool operator==(const LlmOptions&) const = default;
};

/// A piece of a prompt. Pieces that stay the same longest go first.
struct LlmPart {
  std::string role;  ///< "system", "user" or "assistant"
  std::string blob;
  /// Everything up to here is the same in other calls: a dialect that is told
  /// what to cache is told to cache it.
  bool cache_boundary = false;
  /// Says what was measured, which is another in every run. It is no part of
  /// what an answer is kept by: the same question finds its answer again.
  bool varies = false;
  WEFT_FIELDS(role, blob, cache_boundary, varies)
  bool operator==(const LlmPart&) const = default;
};

/// any role -> port/llm. Made under a lease of LlmCallRequest.
struct LlmRequest {
  static constexpr std::string_view name = "LlmRequest";
  std::uint64_t effect = 0;
  std::string provider;  ///< LlmProvider::name
  std::vector<LlmPart> parts;
  int samples = 1;
  std::int64_t max_tokens = 0;  ///< of one sample
  double temperature = -1;      ///< below 0: not sent
  std::string effort;           ///< empty: not sent
  std::string purpose;          ///< "seed sg_1f2e", for people and traces
  std::int64_t wall_ms = 0;
  WEFT_FIELDS(effect, provider, parts, samples, max_tokens, temperature, effort,
              purpose, wall_ms)
  bool operator==(const LlmRequest&) const = default;
};

struct LlmChoice {
  std::string text;  ///< blob
  /// "stop", "length", "refusal", or what the provider says else.
  std::string finish_reason;
  WEFT_FIELDS(text, finish_reason)
  bool operator==(const LlmChoice&) const = default;
};

/// Tokens, the same in all dialects: `input` holds neither `cached` nor
/// `cache_written`, `output` does not hold `reasoning`.
struct LlmUsage {
  std::int64_t input = 0;
  std::int64_t cached = 0;
  std::int64_t cache_written = 0;
  std::int64_t output = 0;
  std::int64_t reasoning = 0;
  bool known = false;  ///< the provider said so; else nothing above counts
  WEFT_FIELDS(input, cached, cache_written, output, reasoning, known)
  bool operator==(const LlmUsage&) const = default;
};

/// What a reply's headers told of the provider's limits. Below 0: not said.
struct LlmHeaderLimits {
  std::int64_t requests_limit = -1;  ///< a minute
  std::int64_t requests_remaining = -1;
  std::int64_t requests_reset_ms = -1;  ///< from now
  std::int64_t tokens_limit = -1;
  std::int64_t tokens_remaining = -1;
  std::int64_t tokens_reset_ms = -1;
  WEFT_FIELDS(requests_limit, requests_remaining, requests_reset_ms,
              tokens_limit, tokens_remaining, tokens_reset_ms)
  bool operator==(const LlmHeaderLimits&) const = default;
};

/// Its failure's codes, beside those of every effect: "rate_limited" (429 and
/// the like: may be tried again, not sooner than the provider says),
/// "overloaded" (529, 5xx, timeouts: likewise), "quota" (no money, no quota, a
/// daily cap: never tried again). "wrong_input" and "missing" (no key) are
/// final for the provider; "failed" may be tried again.
struct LlmReply {
  static constexpr std::string_view name = "LlmReply";
  std::uint64_t effect = 0;
  Failure failure;
  std::vector<LlmChoice> choices;
  LlmUsage usage;
  std::int64_t micro_usd = 0;  ///< by the provider's prices
  std::string model;           ///< that answered
  std::string request_id;      ///< the provider's
  std::int64_t latency_ms = 0;
  std::int64_t first_token_ms = 0;
  LlmHeaderLimits limits;
  bool from_cache = false;  ///< an earlier call's: nothing was paid
  int http_status = 0;      ///< 0: no answer came
  /// The call failed after it was sent: it may have been paid for all the same.
  bool billed_maybe = false;
  WEFT_FIELDS(effect, failure, choices, usage, micro_usd, model, request_id,
              latency_ms, first_token_ms, limits, from_cache, http_status,
              billed_maybe)
  bool operator==(const LlmReply&) const = default;
};

/// What calls took, those that failed included.
struct LlmSpent {
  int calls = 0;
  int from_cache = 0;  ///< of them, that cost nothing
  std::int64_t tokens = 0;
  std::int64_t micro_usd = 0;
  std::int64_t waited_ms = 0;  ///< until they were allowed, of all together
  WEFT_FIELDS(calls, from_cache, tokens, micro_usd, waited_ms)
  bool operator==(const LlmSpent&) const = default;
};

/// A candidate of a search, as far as its report tells of it.
struct LlmTry {
  std::string id;
  std::string parent;  ///< empty: a first proposal
  int round = 0;
  std::string kind;      ///< its verdict's; "failed": it was not verified
  double median_us = 0;  ///< 0: not timed
  WEFT_FIELDS(id, parent, round, kind, median_us)
  bool operator==(const LlmTry&) const = default;
};

/// What a language model was asked for one subgraph.
struct LlmSummary {
  int rounds = 0;    ///< that were asked for, the first proposals included
  std::string note;  ///< why it was not asked, or why it was not asked again
  bool out_of_budget = false;
  LlmSpent spent;
  std::vector<LlmTry> tries{};  ///< the tree: of all sources
  WEFT_FIELDS(rounds, note, out_of_budget, spent, tries)
  bool operator==(const LlmSummary&) const = default;
};

/// extractor -> broker: who may be asked, and what may be spent.
struct LlmAllowance {
  static constexpr std::string_view name = "LlmAllowance";
  LlmOptions options;
  WEFT_FIELDS(options)
  bool operator==(const LlmAllowance&) const = default;
};

/// any role -> broker: may I call? Answered with LeaseGranted, when it may, or
/// LlmCallDenied. What the call can cost at most is reserved with the grant.
struct LlmCallRequest {
  static constexpr std::string_view name = "LlmCallRequest";
  std::uint64_t ticket = 0;
  std::string provider;
  std::string group;               ///< a subgraph's id
  int priority = 0;                ///< higher first: refinements before seeds
  std::int64_t tokens = 0;         ///< at most, input and output
  std::int64_t micro_usd = 0;      ///< at most
  std::int64_t ttl_ms = 600'000;   ///< from the grant
  std::int64_t not_before_us = 0;  ///< a retry waits till then
  WEFT_FIELDS(ticket, provider, group, priority, tokens, micro_usd, ttl_ms,
              not_before_us)
  bool operator==(const LlmCallRequest&) const = default;
};

/// broker -> holder: the call is not made, now or later.
struct LlmCallDenied {
  static constexpr std::string_view name = "LlmCallDenied";
  std::uint64_t ticket = 0;
  std::string code;  ///< "budget", "quota", "full", "unknown"
  std::string reason;
  WEFT_FIELDS(ticket, code, reason)
  bool operator==(const LlmCallDenied&) const = default;
};

/// holder -> broker: how the call went and what it cost; gives the lease back.
struct LlmCallSettled {
  static constexpr std::string_view name = "LlmCallSettled";
  std::uint64_t ticket = 0;
  std::string failure;  ///< its code; empty: it went well
  std::int64_t retry_after_ms = 0;
  std::int64_t tokens = 0;
  std::int64_t micro_usd = 0;
  LlmHeaderLimits limits;
  bool free = false;  ///< of a cache: the provider was not asked
  WEFT_FIELDS(ticket, failure, retry_after_ms, tokens, micro_usd, limits, free)
  bool operator==(const LlmCallSettled&) const = default;
};

}  // namespace weft
