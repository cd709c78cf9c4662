// What a subgraph's agent asks of a language model, and when it stops: first
// kernels once all other sources are judged, then better ones, round by round,
// of the best that the model wrote, or, in a beam, of the best of any source.
// Stops at the floor, after rounds that brought nothing, after all rounds, or
// without budget.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "messages/vocabulary.hpp"

namespace weft {

/// What a search's note begins with where a provider, or the budget, ended it.
inline constexpr std::string_view kNoFurtherCall = "no further call: ";

class LlmSearch {
 public:
  /// A gain is one if it is as large as this step: less is noise.
  static constexpr double kGainStep = 0.05;
  /// So many rounds without a gain in a row are the last ones.
  static constexpr int kRoundsWithoutGainMax = 2;

  using Results = std::map<std::string, SeedResult>;

  /// Whether a model is among the run's sources.
  void begin(const RunOptions& options);

  /// What to ask next, once everything before is judged; empty: nothing more.
  /// `best` may be null.
  std::vector<RefineRequest> next(const OptimizeSubgraph& work,
                                  const Results& results,
                                  const SeedResult* best);

  /// Takes a reply's cost and failure.
  void replied(const SeedsReply& reply);

  /// Nothing more is asked. The first reason is kept.
  void end(const std::string& why);

  /// Replies that are waited for.
  int open() const { return open_; }
  bool is_over() const { return !wanted_; }
  const LlmSummary& summary() const { return summary_; }
  nlohmann::json describe() const;  ///< as Role::describe

  /// All tries with their parents, for the report: the first ones, if there are
  /// many.
  static std::vector<LlmTry> tries(const Results& results);

 private:
  RefineRequest request(const OptimizeSubgraph& work, const Results& results,
                        const SeedResult* best, const SeedResult* parent) const;
  std::vector<const SeedResult*> parents(const LlmOptions& options,
                                         const Results& results) const;
  bool judge_gain(const Results& results, int edition);

  bool wanted_ = false;
  int open_ = 0;
  int fruitless_ = 0;    ///< rounds in a row
  double slowness_ = 0;  ///< of the model's own best kernel
  std::string error_text_;
  LlmSummary summary_;
};

/// Whether nothing faster is to be expected: it moves the bytes that must move
/// about as fast as the device can, and they are more than its caches hold.
bool is_at_floor(const SeedResult& result, const Machine& machine);

/// What a round asks for, for people: "round 2: llm-1 (correct, 14.9 us)".
std::string asked_text(const std::vector<RefineRequest>& asks);

/// N of "beam:N", 1 of "greedy"; 0: neither.
int beam_width(const std::string& search);

}  // namespace weft
