// What was measured on a GPU: how fast a copy is, how fast products are. The
// oracle measures it once a device; it is kept in the user's cache.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "messages/result.hpp"
#include "runtime/gpu.hpp"
#include "runtime/installation.hpp"

namespace weft {

/// What was measured, of the field "gpu" in an oracle's answer to `probe`:
/// copies in "…_gbps", products in "…_tflops".
std::map<std::string, double> gpu_numbers(const nlohmann::json& machine);

/// Those of the device of that number: from the cache, else measured, some
/// seconds long, and kept. A device is known by its uuid, driver and PyTorch.
Result<std::map<std::string, double>> measure_gpu(
    const Installation& installation, const GpuList& gpus, std::size_t number);

}  // namespace weft
