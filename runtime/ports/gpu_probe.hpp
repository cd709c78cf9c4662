// What was measured on a GPU, or the processor: how fast a copy is, how fast
// products are. The oracle measures it once a device; it is kept in the user's
// cache.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "messages/result.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/sandbox/gpu.hpp"

namespace weft {

/// What was measured, of the field "gpu" in an oracle's answer to `probe`:
/// copies in "…_gbps", products in "…_tflops", clusters of N blocks that run
/// at a time in "clusters_of_N".
std::map<std::string, double> gpu_numbers(const nlohmann::json& machine);

/// Those of the device of that number that were measured once, from the user's
/// cache; empty if none were. A device is known by its uuid, driver and
/// PyTorch.
std::map<std::string, double> known_gpu(const Installation& installation,
                                        const GpuList& gpus,
                                        std::size_t number);

/// Keeps an oracle's answer to `probe` for that. Where it cannot be kept it is
/// measured again: no reason to stop.
void keep_gpu(const Installation& installation, const GpuList& gpus,
              std::size_t number, const nlohmann::json& machine);

/// Rates that PyTorch reaches on the processor with all cores: "copy_gbps",
/// "read_gbps", "fp32_gflops". Kept as the GPUs' numbers are, by processor,
/// number of cores and PyTorch.
Result<std::map<std::string, double>> measure_cpu(
    const Installation& installation, const std::string& processor, int cores);

/// Those that are known, else measured, some seconds long, and kept.
Result<std::map<std::string, double>> measure_gpu(
    const Installation& installation, const GpuList& gpus, std::size_t number);

}  // namespace weft
