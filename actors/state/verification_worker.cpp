// How far the verification of a seed is.
#include "actors/verification_worker.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json VerificationWorker::describe() const {
  return {{"work", work_ ? to_state(*work_) : nlohmann::json()},
          {"agent", agent_},
          {"is_stopped", stopped_},
          {"is_timing", timing_},
          {"result", to_state(result_)},
          {"artefact", artefact_},
          {"sizes_to_check", judged_},
          {"sizes", sizes_},
          {"effects", effects_.describe()}};
}

}  // namespace weft
