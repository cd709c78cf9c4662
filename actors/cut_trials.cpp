#include "actors/cut_trials.hpp"

#include <utility>

#include "actors/outcome.hpp"
#include "messages/formatted.hpp"

namespace weft {

void CutTrials::begin(Plan plan, bool times_module) {
  std::vector<Plan> others = std::move(plan.others);
  plan.others.clear();
  cuts_.push_back(std::move(plan));
  for (Plan& other : others) cuts_.push_back(std::move(other));
  is_open_ = times_module && cuts_.size() > 1;
}

Plan CutTrials::plan() const {
  Plan plan = cuts_[at_];
  for (std::size_t i = 0; i < cuts_.size(); ++i) {
    if (i != at_) plan.others.push_back(cuts_[i]);
  }
  return plan;
}

bool CutTrials::next() {
  if (!is_open_ || at_ + 1 >= cuts_.size()) return false;
  ++at_;
  return true;
}

void CutTrials::keep_model() {
  for (std::size_t i = 0; i < cuts_.size(); ++i) {
    if (!cuts_[i].fused_attention_calls.empty()) continue;
    at_ = i;
    return;
  }
}

void CutTrials::finished(CutTrial trial) {
  times_.push_back(cuts_[trial.cut].label +
                   formatted(" %.4g us", trial.timing.candidate.median_us));
  const bool passes_kernelbench =
      trial.verdict.kernelbench.outcome == kernelbench_outcome::within;
  if (passes_kernelbench &&
      (!best_kernelbench_ ||
       is_faster(trial.timing, best_kernelbench_->timing))) {
    best_kernelbench_ = trial;
  }
  if (!best_ || is_faster(trial.timing, best_->timing)) {
    best_ = std::move(trial);
  }
}

std::optional<CutTrial> CutTrials::choose() {
  is_open_ = false;
  if (best_) at_ = best_->cut;
  return std::exchange(best_, {});
}

std::string CutTrials::summary() const {
  std::string text = "The model was partitioned in " +
                     std::to_string(cuts_.size()) +
                     " ways. Correct, and timed as a whole:";
  for (const std::string& entry : times_) {
    text += (&entry == &times_.front() ? " " : "; ") + entry;
  }
  return text +
         (times_.empty() ? " none." : ". Chosen: " + cuts_[at_].label + ".");
}

}  // namespace weft
