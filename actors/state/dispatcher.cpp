// Which subgraphs are at work, and which have their verdict.
#include "actors/dispatcher.hpp"

#include "actors/state/plan_state.hpp"
#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json SearchShares::describe() const {
  return {{"order", order_}, {"costs_not_begun", costs_}};
}

nlohmann::json AgentLocations::describe() const {
  auto all = nlohmann::json::object();
  for (const auto& [id, agent] : agents_) {
    all[id] = {{"locations", agent.work.locations},
               {"gpu", agent.gpu ? to_state(*agent.gpu) : nlohmann::json()},
               {"gone", agent.gone},
               {"alarm", agent.alarm}};
  }
  return all;
}

nlohmann::json Dispatcher::describe() const {
  auto outcomes = nlohmann::json::object();
  for (const auto& [id, done] : done_) outcomes[id] = done.outcome;
  auto alarms = nlohmann::json::array();
  for (const auto& [effect, subgraph] : alarms_) {
    alarms.push_back({{"effect", effect}, {"subgraph", subgraph}});
  }
  return {
      {"plan", dispatch_ ? nlohmann::json(dispatch_->plan) : nlohmann::json()},
      {"subgraphs", subgraph_ids(plan_)},
      {"order", order_},
      {"started", next_},
      {"search_until_us", search_until_us_},
      {"captured_us", captured_us_},
      {"kernels_each", kernels_each_},
      {"agents_limit", agents_limit_},
      {"shares", shares_.describe()},
      {"alarms", std::move(alarms)},
      {"outcomes", std::move(outcomes)},
      {"offers", map_to_state(offers_)},
      {"placed", agents_.describe()},
      {"spares_head", spares_head_},
      {"node_alarm", node_alarm_},
      {"agents_at_work", working_},
      {"subgraphs_before_fusing", subgraph_ids(apart_)},
      {"fusing",
       {{"subgraphs", subgraph_ids(fusing_.plan)}, {"parts", fusing_.parts}}},
      {"fused", fused_},
      {"tried_to_fuse", tried_to_fuse_},
      {"summary_written", summary_written_},
      {"is_composed", is_composed_},
      {"eager_contractions", eager_contractions_
                                 ? nlohmann::json(*eager_contractions_)
                                 : nlohmann::json()},
      {"effects", effects_.describe()},
      {"is_over", over_}};
}

}  // namespace weft
