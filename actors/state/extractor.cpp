// How far the cutting of a model is.
#include "actors/extractor.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json Extractor::describe() const {
  return {{"run", run_ ? to_state(*run_) : nlohmann::json()},
          {"errand_capture", capture_},
          {"plan", plan_},
          {"errands", errands_.describe()}};
}

}  // namespace weft
