// What an agent knows of its subgraph's kernels.
#include "actors/subgraph_agent.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json SubgraphAgent::describe() const {
  return {{"work", work_ ? to_state(*work_) : nlohmann::json()},
          {"sources_open", sources_open_},
          {"replies", replies_},
          {"location_index", location_index_},
          {"locations_lost", locations_lost_},
          {"stranded", stranded_ ? to_state(*stranded_) : nlohmann::json()},
          {"being_verified", map_to_state(seeds_)},
          {"results", map_to_state(results_)},
          {"judged_us", judged_us_},
          {"waiting", to_state(waiting_)},
          {"library",
           {{"seed", known_id_},
            {"known", to_state(known_)},
            {"patterns", to_state(patterns_)},
            {"holds", holds_},
            {"can_keep", can_keep_}}},
          {"final", final_},
          {"error_text", error_text_},
          {"is_settled", settled_},
          {"ending", ending_},
          {"out_of_time", out_of_time_},
          {"done", done_ ? to_state(*done_) : nlohmann::json()},
          {"model", model_.describe()},
          {"asks", to_state(asks_)},
          {"compared", compared_},
          {"torch_compile", to_state(compile_)},
          {"effects", effects_.describe()},
          {"is_over", over_}};
}

}  // namespace weft
