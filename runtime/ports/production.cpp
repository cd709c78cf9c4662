#include "runtime/ports/production.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/role.hpp"
#include "messages/protection.hpp"
#include "runtime/machine/device_choice.hpp"
#include "runtime/ports/build_port.hpp"
#include "runtime/ports/capture_port.hpp"
#include "runtime/ports/clock_port.hpp"
#include "runtime/ports/files_port.hpp"
#include "runtime/ports/library_port.hpp"
#include "runtime/ports/llm_port.hpp"
#include "runtime/ports/verify_port.hpp"

namespace weft {
namespace {

/// Where models and kernels run: one of the run's GPUs, or the processor.
struct RunDevice {
  Location location;
  std::string name = "cpu";  ///< or "cuda:0"
  Gpu gpu;
  std::string slot_name = "slot";
};

/// A device that is gone has no port: check_devices() has said so before.
std::vector<RunDevice> devices_of(const RunStart& start) {
  const bool is_here = head_can(start, capability::judge) ||
                       head_can(start, capability::capture);
  if (!is_here) return {};
  if (start.machine.gpus.empty()) return {RunDevice{}};
  const GpuList list = list_gpus();
  std::vector<RunDevice> devices;
  for (const Gpu& gpu : start.machine.gpus) {
    const auto name = cuda_name(gpu, start.options.device, list);
    if (!name) continue;
    RunDevice& device = devices.emplace_back();
    device.name = *name;
    device.gpu = gpu;
    if (!knows_locations(start) || gpu.uuid.empty()) continue;
    device.location = location_of_gpu(gpu);
    if (start.machine.gpus.size() > 1) {
      device.slot_name = "gpu" + std::to_string(devices.size() - 1) + "-slot";
    }
  }
  return devices;
}

}  // namespace

Result<void> check_devices(const RunStart& start) {
  if (start.machine.gpus.empty()) return {};
  const GpuList list = list_gpus();
  for (const Gpu& gpu : start.machine.gpus) {
    const auto name = cuda_name(gpu, start.options.device, list);
    if (!name) return std::unexpected(name.error());
  }
  return {};
}

Production make_production(const RunDirectory& run, const Scratch& scratch,
                           const Installation& installation, BlobStore& blobs,
                           const RunStart& start, LlmAccess llm) {
  const RunOptions& options = start.options;
  const Machine& machine = start.machine;
  const bool judges = head_can(start, capability::judge);
  Production production;
  production.kernels = std::make_unique<Library>(options.known_kernels);
  production.cache = std::make_unique<KernelCache>(
      run.builds(), scratch.folder(),
      make_workshop(installation, machine, production.kernels.get()));
  production.ports[address::clock] = std::make_unique<ClockPort>();
  production.ports[address::library] =
      std::make_unique<LibraryPort>(blobs, *production.kernels);
  production.ports[address::files] =
      std::make_unique<FilesPort>(run.folder(), blobs);
  production.ports[address::llm] = std::make_unique<LlmPort>(
      blobs, LlmPort::Options{std::move(llm.endpoints), run.llm_replies(),
                              std::move(llm.cache), llm.limit});
  const std::vector<RunDevice> devices = devices_of(start);
  // The whole is composed where most is free, which is the first of all.
  const auto first =
      std::ranges::min_element(devices, {}, &RunDevice::location);
  production.ports[address::build] = std::make_unique<BuildPort>(
      blobs, *production.cache,
      std::max(1, has_class(start) ? start.head_cores : machine.cores));
  for (const RunDevice& device : devices) {
    production.ports[address::at(address::capture, device.location)] =
        std::make_unique<CapturePort>(
            blobs, installation, scratch.folder(), capture_limits(options),
            *production.kernels, device.name, device.gpu.name);
    if (!judges) continue;
    VerifyPort::Options verify;
    verify.installation = installation;
    verify.scratch = scratch.folder();
    verify.logs = run.logs();
    verify.slots = std::min(machine.cores, kOracleSlotsMax);
    if (machine.gpus.empty()) {
      verify.patience_ms = kOracleStartMs;
    } else {
      verify.slots = kGpuUnits;
    }
    verify.device = device.name;
    verify.arch = device.gpu.arch;
    verify.slot_name = device.slot_name;
    verify.threads = machine.cores;
    VerifyPort::take_run(verify, start);
    auto verifying = std::make_unique<VerifyPort>(blobs, *production.cache,
                                                  std::move(verify));
    // While the model is captured; on a processor that slows the capture, which
    // is worth it where time is limited.
    const bool is_warmed = !machine.gpus.empty() || options.budget_ms > 0;
    if (is_warmed && device.location == first->location) {
      verifying->warm_up(start);
    }
    production.ports[address::at(address::verify, device.location)] =
        std::move(verifying);
  }
  return production;
}

}  // namespace weft
