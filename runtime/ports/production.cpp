#include "runtime/ports/production.hpp"

#include <algorithm>

#include "actors/device.hpp"
#include "actors/role.hpp"
#include "runtime/ports/build_port.hpp"
#include "runtime/ports/capture_port.hpp"
#include "runtime/ports/clock_port.hpp"
#include "runtime/ports/files_port.hpp"
#include "runtime/ports/library_port.hpp"
#include "runtime/ports/llm_port.hpp"
#include "runtime/ports/verify_port.hpp"

namespace weft {
namespace {

/// Each oracle and its candidate hold PyTorch: about half a GiB a slot.
constexpr int oracle_slots_max = 4;

}  // namespace

Production make_production(const RunDirectory& run, const Scratch& scratch,
                           const Installation& installation, BlobStore& blobs,
                           const RunStart& start, LlmAccess llm) {
  const RunOptions& options = start.options;
  const Machine& machine = start.machine;
  Production made;
  made.kernels = std::make_unique<Library>(options.known_kernels);
  made.cache = std::make_unique<KernelCache>(
      run.builds(), scratch.folder(),
      make_workshop(installation, machine, made.kernels.get()));
  made.ports[address::clock] = std::make_unique<ClockPort>();
  made.ports[address::library] =
      std::make_unique<LibraryPort>(blobs, *made.kernels);
  made.ports[address::files] = std::make_unique<FilesPort>(run.folder(), blobs);
  made.ports[address::llm] = std::make_unique<LlmPort>(
      blobs, LlmPort::Options{std::move(llm.endpoints), run.llm_replies(),
                              std::move(llm.cache)});
  std::string device = "cpu";
  if (!machine.gpus.empty()) device = "cuda:" + std::to_string(options.device);
  const std::string gpu = machine.gpus.empty() ? "" : machine.gpus.front().name;
  made.ports[address::capture] = std::make_unique<CapturePort>(
      blobs, installation, scratch.folder(), options.memory_bytes,
      *made.kernels, device, gpu);
  made.ports[address::build] =
      std::make_unique<BuildPort>(blobs, *made.cache, machine.cores);
  VerifyPort::Options verify;
  verify.installation = installation;
  verify.scratch = scratch.folder();
  verify.logs = run.logs();
  verify.slots = std::min(machine.cores, oracle_slots_max);
  if (!machine.gpus.empty()) verify.slots = gpu_units;
  verify.device = device;
  verify.interprets = !can_time(options, machine);
  verify.precision = options.precision;
  verify.threads = machine.cores;
  verify.memory_bytes = options.memory_bytes;
  auto verifying =
      std::make_unique<VerifyPort>(blobs, *made.cache, std::move(verify));
  // While the model is captured; on a processor that would only slow it.
  if (!machine.gpus.empty()) verifying->warm_up(start);
  made.ports[address::verify] = std::move(verifying);
  return made;
}

}  // namespace weft
