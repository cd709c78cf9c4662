#include "actors/kernel_key.hpp"

namespace weft {
namespace {

/// What decides how fast a kernel is there, and which variants there are.
std::string device_text(const Machine& machine) {
  if (!machine.gpus.empty()) {
    const Gpu& gpu = machine.gpus.front();
    return gpu.name + ", " + gpu.arch + ", " + std::to_string(gpu.sms) +
           " multiprocessors";
  }
  return machine.name + ", " + std::to_string(machine.cores) + " cores, " +
         std::to_string(8 * machine.vector_bytes) + "-bit vectors";
}

}  // namespace

KernelKey kernel_key(const OptimizeSubgraph& work) {
  const RunOptions& options = work.options;
  KernelKey key;
  key.signature = work.signature;
  key.target = options.target;
  key.device = device_text(work.machine);
  key.policy = options.precision;
  if (options.rounding != "eager")
    key.policy += ", rounding " + options.rounding;
  if (options.no_extern) key.policy += ", no extern";
  return key;
}

}  // namespace weft
