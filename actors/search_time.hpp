// How the time that a user gives a run (RunOptions::budget_ms) is dealt out:
// what is left for the search once the model is captured, and each subgraph's
// share of that, by what it seems to take of the model's own time. All in
// milliseconds; who deals out has the journal's clock.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// Where the run's time is limited, torch.compile is timed beside the module
/// only if so much is left. It compiles beside the search.
inline constexpr std::int64_t kCompileLeftMs = 60'000;

/// Less is not enough to build, check and time a single kernel for each
/// subgraph that is searched for at once.
inline constexpr std::int64_t kLeastShareMs = 10'000;

/// RunStart::vocabulary of the first runs that spend small budgets by the
/// present rules. Earlier runs are decided as they were.
inline constexpr int kSmallBudgetsVocabulary = 6;
inline bool spends_small_budgets(const RunStart& run) {
  return run.vocabulary >= kSmallBudgetsVocabulary;
}

/// Of the run's budget, of which so much is gone (for capturing the model); the
/// rest is for checking and timing what was composed. 0: nothing is left to
/// search in. `is_earlier`: of a run before kSmallBudgetsVocabulary.
std::int64_t search_ms(const RunOptions& options, std::int64_t gone_ms,
                       bool is_earlier = false);

/// Whether that is time enough for so many subgraphs to be searched for as
/// without a budget: in every way to cut, with torch.compile beside each piece.
/// Never with a language model, whose rounds take minutes.
bool is_ample(std::int64_t search_ms, std::size_t subgraphs,
              const RunOptions& options);

/// "12.3 s"
std::string seconds_text(std::int64_t us);

/// How many kernels of a source each of so many subgraphs has time for, the
/// same number for all: two at least, of which one may not build, and no more
/// than are asked for. One, where the time is short.
int kernels_each(std::int64_t left_ms, std::size_t subgraphs,
                 const RunOptions& options);

/// How many kernels of a source a subgraph has time for that does `share` of
/// the work of those that are not begun, `others` of which come after it. At
/// least `least` (kernels_each); the rest of the time is dealt out by the work,
/// as far as it leaves two kernels for each of the others.
int kernels_by_share(std::int64_t left_ms, double share, std::size_t others,
                     int least, const RunOptions& options);

/// How many subgraphs to search for at a time, of `jobs` that there could be:
/// in a short time the most expensive one gets all of it.
std::size_t subgraphs_at_once(std::int64_t left_ms, std::size_t jobs);

/// What a run with a budget took for its parts, so far, for the report.
std::string time_spent(const Compose& compose, std::int64_t now_us);

/// Of the work of all calls of the model, by bytes and operations: the part
/// that this subgraph does, in all places where it is. 0: it is in no cut.
double work_share(const Plan& plan, const Subgraph& subgraph);

/// The subgraphs of a plan, dearest first, and what is dealt out among them.
class SearchShares {
 public:
  SearchShares() = default;
  explicit SearchShares(const Plan& plan);

  /// Indices of plan.subgraphs: those whose kernels would gain most go first.
  const std::vector<std::size_t>& order() const { return order_; }

  /// Of one that is not begun: bytes that move, or what takes as long.
  std::int64_t cost(const std::string& subgraph) const;

  /// Of what all subgraphs cost that are not begun: the part of this one.
  double share(const std::string& subgraph) const;

  /// What the subgraph may take of `left_ms`, in which so many are searched for
  /// beside each other. It counts as begun from here on: what it does not use
  /// is left to the others.
  std::int64_t take(const std::string& subgraph, std::int64_t left_ms,
                    std::size_t jobs);
  nlohmann::json describe() const;  ///< as Role::describe

 private:
  std::vector<std::size_t> order_;
  std::map<std::string, double> costs_;  ///< of those that are not begun
};

}  // namespace weft
