// How far the cutting of a model is.
#include "actors/extractor.hpp"

#include "actors/state/plan_state.hpp"
#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json Extractor::describe() const {
  return {{"run", run_ ? to_state(*run_) : nlohmann::json()},
          {"begun_us", begun_us_},
          {"timer_deadline", deadline_},
          {"is_over", is_over_},
          {"effect_capture", capture_},
          {"sizes", sizes_},
          {"other_sizes", samples_},
          {"effect_other_sizes", capture_of_samples_},
          {"graphs_of_sizes", graphs_},
          {"subgraphs", subgraph_ids(cut_)},
          {"plan", plan_},
          {"cuts_asked_for", proposals_},
          {"calls", calls_.describe()},
          {"effects", effects_.describe()}};
}

}  // namespace weft
