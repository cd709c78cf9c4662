// How far the making of a problem file is.
#include "actors/test_writer.hpp"

#include "actors/state/state_json.hpp"

namespace weft {

nlohmann::json TestWriter::describe() const {
  return {{"run", run_ ? to_state(*run_) : nlohmann::json()},
          {"asked", asked_},
          {"spent", to_state(spent_)},
          {"calls", calls_.describe()},
          {"effects", effects_.describe()},
          {"is_over", over_}};
}

}  // namespace weft
