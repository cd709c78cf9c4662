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

nlohmann::json to_state(const std::optional<CutTrial>& trial) {
  if (!trial) return {};
  return {{"cut", trial->cut},
          {"chosen", ids_of(trial->chosen)},
          {"source", trial->source},
          {"verdict", to_state(trial->verdict)},
          {"timing", to_state(trial->timing)}};
}

nlohmann::json to_state(const KernelBenchModule& kernelbench_module) {
  return {{"composed", kernelbench_module.composed},
          {"used", kernelbench_module.used},
          {"externs", kernelbench_module.externs},
          {"stand_ins", kernelbench_module.stand_ins},
          {"source", kernelbench_module.source},
          {"verdict", to_state(kernelbench_module.verdict)},
          {"timing", to_state(kernelbench_module.timing)}};
}

}  // namespace

nlohmann::json CutTrials::describe() const {
  auto cuts = nlohmann::json::array();
  for (const Plan& cut : cuts_) {
    cuts.push_back({{"way", cut.label}, {"subgraphs", subgraph_ids(cut)}});
  }
  return {{"cuts", std::move(cuts)},
          {"at", at_},
          {"is_open", is_open_},
          {"best", to_state(best_)},
          {"kernelbench", to_state(best_kernelbench_)},
          {"times", times_}};
}

nlohmann::json Composer::describe() const {
  static constexpr const char* kStages[] = {"whole", "seeking", "kernelbench"};
  auto outcomes = nlohmann::json::object();
  if (compose_) {
    for (const SubgraphDone& done : compose_->results) {
      outcomes[done.subgraph] = done.outcome;
    }
  }
  auto eager_contractions_results = nlohmann::json::object();
  for (const SubgraphDone& done : eager_contractions_results_) {
    eager_contractions_results[done.subgraph] = done.outcome;
  }
  return {{"has_work", compose_.has_value()},
          {"outcomes", std::move(outcomes)},
          {"subgraphs", subgraph_ids(plan_)},
          {"trials", trials_.describe()},
          {"stage", kStages[static_cast<int>(stage_)]},
          {"chosen", ids_of(chosen_)},
          {"keeps_forward", keeps_forward_},
          {"ranked", ids_of(ranked_)},
          {"within", within_},
          {"outside", outside_},
          {"changes", changes_},
          {"kernelbench_source", kernelbench_source_},
          {"kernelbench_module", to_state(kernelbench_module_)},
          {"eager_contractions", eager_contractions_
                                     ? subgraph_ids(*eager_contractions_)
                                     : nlohmann::json()},
          {"is_eager_contractions", is_eager_contractions_},
          {"eager_contractions_results", std::move(eager_contractions_results)},
          {"source", source_},
          {"sizes_to_check", judged_},
          {"sizes", sizes_},
          {"sized_problem", sized_problem_},
          {"verdict", to_state(verdict_)},
          {"report",
           {{"used", report_.used},
            {"stand_ins", report_.stand_ins},
            {"verdict", to_state(report_.verdict)},
            {"timing", to_state(report_.timing)},
            {"kernelbench_module", to_state(report_.kernelbench_module)},
            {"machine", to_state(report_.machine)},
            {"notes", report_.notes},
            {"rejected", report_.rejected}}},
          {"is_checked", is_checked_},
          {"is_settled", is_settled_},
          {"was_slower", was_slower_},
          {"effect_timing", timing_},
          {"effect_making", making_},
          {"effect_probe", probe_},
          {"effect_files", files_},
          {"timer_deadline", deadline_},
          {"effects", effects_.describe()},
          {"is_over", over_}};
}

}  // namespace weft
