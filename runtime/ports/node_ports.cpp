#include "runtime/ports/node_ports.hpp"

#include <algorithm>
#include <system_error>

#include "actors/device.hpp"
#include "messages/protection.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/machine/disk_space.hpp"
#include "runtime/ports/build_port.hpp"
#include "runtime/ports/gpu_probe.hpp"
#include "runtime/ports/kernel_cache.hpp"
#include "runtime/ports/verify_port.hpp"

namespace weft {
namespace {

/// Each oracle and its candidate hold PyTorch: about half a GiB a slot.
constexpr int kOracleSlotsMax = 4;

/// What a run left, above all its kernels, is of no use to the next.
void clear(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

/// Whatever candidates left, once they are judged, is of no use to anybody.
std::function<void()> empties(std::vector<VerifyPort*> verifiers) {
  return [verifiers = std::move(verifiers)] {
    for (VerifyPort* port : verifiers) port->empty_idle_slots();
  };
}

int slots_of(const wire::Hello& hello, const std::string& resource) {
  const auto found = hello.slots.find(resource);
  return found == hello.slots.end() ? 1 : std::max(1, found->second);
}

}  // namespace

NodePorts make_node_ports(const RunDirectory& folder, const Scratch& scratch,
                          const Installation& installation,
                          const wire::Hello& hello, Blobs& blobs,
                          const RunStart& start) {
  clear(folder.builds());
  const auto devices = devices_for(hello, start);
  Machine machine = hello.machine;
  for (const wire::Device& device : devices) {
    machine.gpus.push_back(device.facts);
  }
  auto cache = std::make_shared<KernelCache>(
      folder.builds(), scratch.folder(), make_workshop(installation, machine));
  NodePorts node_ports;
  node_ports.keeps = cache;
  node_ports.ports[address::build] =
      std::make_unique<BuildPort>(blobs, *cache, slots_of(hello, "cpu"));
  std::vector<VerifyPort*> verifiers;  // made.ports' own
  const auto verifier = [&](const std::string& name, const std::string& device,
                            int slots) {
    VerifyPort::Options verify;
    verify.installation = installation;
    verify.scratch = scratch.folder() / name;
    verify.logs = folder.logs() / name;
    verify.slots = slots;
    if (device == "cpu") verify.patience_ms = kOracleStartMs;
    verify.device = device;
    verify.interprets = !can_time(start.options, start.machine);
    verify.precision = start.options.precision;
    verify.untrusted_problem = is_problem_untrusted(start);
    verify.threads = machine.cores;
    verify.memory_bytes = start.options.memory_bytes;
    auto port = std::make_unique<VerifyPort>(blobs, *cache, std::move(verify));
    verifiers.push_back(port.get());
    return port;
  };
  if (start.machine.gpus.empty()) {
    node_ports.ports[address::verify] = verifier(
        "cpu", "cpu", std::min(slots_of(hello, "cpu"), kOracleSlotsMax));
    node_ports.free_space = empties(std::move(verifiers));
    return node_ports;
  }
  const GpuList present = list_gpus();
  for (const wire::Device& device : devices) {
    const auto found =
        std::ranges::find(present.devices, device.uuid, &GpuDevice::uuid);
    if (found == present.devices.end()) continue;
    const auto number = found - present.devices.begin();
    node_ports.ports[address::verify + "/" + device.uuid] =
        verifier(device.uuid, "cuda:" + std::to_string(number), kGpuUnits);
  }
  node_ports.free_space = empties(std::move(verifiers));
  return node_ports;
}

std::vector<std::string> measure_devices(wire::Hello& hello,
                                         const Installation& installation,
                                         const GpuList& gpus) {
  std::vector<std::string> complaints;
  for (wire::Device& device : hello.devices) {
    const auto listed =
        std::ranges::find(gpus.devices, device.uuid, &GpuDevice::uuid);
    if (listed == gpus.devices.end()) continue;
    auto numbers =
        measure_gpu(installation, gpus,
                    static_cast<std::size_t>(listed - gpus.devices.begin()));
    if (numbers) {
      device.numbers = std::move(*numbers);
    } else {
      complaints.push_back(device.uuid + ": " + numbers.error().message);
    }
  }
  return complaints;
}

std::string no_space_reason(const RunDirectory& folder, const Scratch& scratch,
                            std::int64_t bytes) {
  for (const auto& folder_path : {folder.folder(), scratch.folder()}) {
    const auto space = try_free_space(folder_path, bytes);
    if (!space) return space.error().message;
  }
  return "";
}

}  // namespace weft
