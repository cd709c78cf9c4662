// What a code generator for GPUs may know of the device.
#pragma once

#include <cstdint>
#include <map>

#include "compiler/choices/choices.hpp"
#include "compiler/choices/cost.hpp"
#include "messages/run.hpp"

namespace weft {

/// The defaults stand where there is no GPU and kernels are only proven.
struct GpuFacts {
  int sms = 108;                         ///< streaming multiprocessors
  int resident_threads = 2048;           ///< that one can have at a time
  std::int64_t l2_bytes = 40 << 20;      ///< the last cache
  std::int64_t shared_bytes = 99 << 10;  ///< that one block can have
  bool clusters = true;  ///< blocks can share memory: from sm_90 on
  /// By blocks of a cluster, how many run at a time that each have the whole
  /// of a multiprocessor's memory: the driver's word. Empty: not probed.
  std::map<std::int64_t, std::int64_t> clusters_of{};
  bool interpreted = true;  ///< Triton's interpreter runs the kernels
  DeviceRates rates{};
  Choices choices{};  ///< what code generation decides by speed alone
};

GpuFacts gpu_facts(const Machine& machine, const Choices& choices = {});

}  // namespace weft
