#include "actors/device.hpp"

#include "compiler/targets.hpp"

namespace weft {

std::string device_resource(const Machine& machine) {
  return machine.gpus.empty() ? "cpu" : "gpu";
}

bool can_time(const RunOptions& options, const Machine& machine) {
  const Target* target = find_target(options.target);
  return !target || !target->on_gpu || !machine.gpus.empty();
}

}  // namespace weft
