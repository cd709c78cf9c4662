#include "compiler/loops/gpu_facts.hpp"

#include <algorithm>

namespace weft {
namespace {

/// 90 of "sm_90" and of "sm_90a"; 0 of what is none.
int number_of(const std::string& arch) {
  int number = 0;
  for (const char c : arch) {
    if (c >= '0' && c <= '9') number = 10 * number + (c - '0');
  }
  return number;
}

}  // namespace

GpuFacts gpu_facts(const Machine& machine, const Choices& choices) {
  GpuFacts facts;
  facts.choices = choices;
  if (machine.gpus.empty()) return facts;
  const Gpu& gpu = machine.gpus.front();
  facts.interpreted = false;
  facts.sms = std::max(1, gpu.sms);
  facts.rates = device_rates(gpu);
  facts.l2_bytes = gpu.l2_bytes;
  facts.shared_bytes = gpu.shared_bytes;
  facts.clusters = number_of(gpu.arch) >= 90;
  return facts;
}

}  // namespace weft
