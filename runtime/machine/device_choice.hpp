// Which of the machine's GPUs a run has, and which number the driver gives each
// of them now: a run knows its devices by their UUIDs.
#pragma once

#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/run.hpp"
#include "runtime/sandbox/gpu.hpp"

namespace weft {

/// `wanted`: numbers, UUIDs or their beginnings, or "all"; empty: `device`
/// alone, if it is there. wrong_input: there is no such device.
Result<std::vector<Gpu>> choose_gpus(const std::vector<std::string>& wanted,
                                     int device, const GpuList& list);

/// "cuda:1", of that GPU in the driver's order; `device` of one whose UUID was
/// not recorded. missing: it is not in the machine any more.
Result<std::string> cuda_name(const Gpu& gpu, int device, const GpuList& list);

}  // namespace weft
