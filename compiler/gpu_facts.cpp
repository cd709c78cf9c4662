#include "compiler/gpu_facts.hpp"

#include <algorithm>

namespace weft {

GpuFacts gpu_facts(const Machine& machine) {
  GpuFacts facts;
  if (machine.gpus.empty()) return facts;
  const Gpu& gpu = machine.gpus.front();
  facts.sms = std::max(1, gpu.sms);
  facts.l2_bytes = gpu.l2_bytes;
  facts.shared_bytes = gpu.shared_bytes;
  return facts;
}

}  // namespace weft
