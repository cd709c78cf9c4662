// Which of a model's cuts gives the fastest module: where the cost model could
// not tell, each is composed, checked and timed as a whole, one after the
// other.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// A module that was right and timed.
struct CutTrial {
  std::size_t cut = 0;
  std::vector<const SubgraphDone*> chosen;  ///< whose kernels are in it
  std::string source;                       ///< blob: the module
  Verdict verdict;
  Timing timing;
};

class CutTrials {
 public:
  /// Takes the plan apart. With no timing there is nothing to compare: then
  /// the first cut stays.
  void begin(Plan plan, bool times_module);

  /// The cut at hand, with the others.
  Plan plan() const;
  std::size_t cut() const { return at_; }
  const Plan& plan_of(std::size_t cut) const { return cuts_[cut]; }
  /// Whether a cut is still to be tried or chosen.
  bool is_open() const { return is_open_; }
  /// Goes on with the next cut; false after the last.
  bool next();
  /// The module of the cut at hand.
  void finished(CutTrial trial);
  /// The first cut without stand-ins becomes the one at hand, if there is one.
  void keep_model();
  /// The fastest, which becomes the cut at hand; nothing if none was right and
  /// timed. The trials are over.
  std::optional<CutTrial> choose();
  /// The fastest that is near to eager; null if none is.
  const CutTrial* best_kernelbench() const {
    return best_kernelbench_ ? &*best_kernelbench_ : nullptr;
  }
  /// What each took, for people. There were several.
  std::string summary() const;
  nlohmann::json describe() const;  ///< as Role::describe

 private:
  std::vector<Plan> cuts_;
  std::size_t at_ = 0;
  bool is_open_ = false;
  std::optional<CutTrial> best_;
  std::optional<CutTrial> best_kernelbench_;
  std::vector<std::string> times_;
};

}  // namespace weft
