// Of what a module is being made, and what was found of it.
#include "actors/composer.hpp"

#include "actors/state/plan_state.hpp"
#include "actors/state/state_json.hpp"

namespace weft {
namespace {

nlohmann::json ids_of(const std::vector<const SubgraphDone*>& subgraphs) {
  auto ids = nlohmann::json::array();
  for (const SubgraphDone* done : subgraphs) ids.push_back(done->subgraph);
  return ids;
}

}  // namespace

nlohmann::json CutTrials::describe() const {
  auto cuts = nlohmann::json::array();
  for (const Plan& cut : cuts_) {
    cuts.push_back({{"way", cut.way}, {"subgraphs", subgraph_ids(cut)}});
  }
  nlohmann::json best;
  if (best_) {
    best = {{"cut", best_->cut},
            {"chosen", ids_of(best_->chosen)},
            {"source", best_->source},
            {"verdict", to_state(best_->verdict)},
            {"timing", to_state(best_->timing)}};
  }
  return {{"cuts", std::move(cuts)},
          {"at", at_},
          {"is_open", is_open_},
          {"best", std::move(best)},
          {"times", times_}};
}

nlohmann::json Composer::describe() const {
  static constexpr const char* kStages[] = {"whole", "seeking", "near"};
  auto outcomes = nlohmann::json::object();
  if (compose_) {
    for (const SubgraphDone& done : compose_->results) {
      outcomes[done.subgraph] = done.outcome;
    }
  }
  return {{"has_work", compose_.has_value()},
          {"outcomes", std::move(outcomes)},
          {"subgraphs", subgraph_ids(plan_)},
          {"trials", trials_.describe()},
          {"stage", kStages[static_cast<int>(stage_)]},
          {"chosen", ids_of(chosen_)},
          {"keeps_forward", keeps_forward_},
          {"ranked", ids_of(ranked_)},
          {"near", near_},
          {"far", far_},
          {"changes", changes_},
          {"near_source", near_source_},
          {"source", source_},
          {"batches_to_check", sizes_},
          {"batch", size_},
          {"sized_problem", sized_problem_},
          {"verdict", to_state(verdict_)},
          {"report",
           {{"used", report_.used},
            {"stand_ins", report_.stand_ins},
            {"verdict", to_state(report_.verdict)},
            {"timing", to_state(report_.timing)},
            {"near",
             {{"made", report_.near.made},
              {"used", report_.near.used},
              {"stand_ins", report_.near.stand_ins},
              {"verdict", to_state(report_.near.verdict)},
              {"timing", to_state(report_.near.timing)}}},
            {"machine", to_state(report_.machine)},
            {"notes", report_.notes},
            {"rejected", report_.rejected}}},
          {"was_slower", was_slower_},
          {"errand_timing", timing_},
          {"errand_making", making_},
          {"errand_probe", probe_},
          {"errands", errands_.describe()},
          {"is_over", over_}};
}

}  // namespace weft
