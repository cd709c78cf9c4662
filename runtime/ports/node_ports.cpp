#include "runtime/ports/node_ports.hpp"

#include <algorithm>
#include <system_error>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "messages/protection.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/machine/disk_space.hpp"
#include "runtime/ports/build_port.hpp"
#include "runtime/ports/capture_port.hpp"
#include "runtime/ports/gpu_probe.hpp"
#include "runtime/ports/kernel_cache.hpp"
#include "runtime/ports/verify_port.hpp"
#include "runtime/store/library.hpp"

namespace weft {
namespace {

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

/// Makes a node's ports for what it can do in the run, as the head tells the
/// broker (runtime/bus/membership.hpp).
class PortMaker {
 public:
  PortMaker(const RunDirectory& folder, const Scratch& scratch,
            const Installation& installation, const wire::Hello& hello,
            Blobs& blobs, const RunStart& start)
      : folder_(folder),
        scratch_(scratch),
        installation_(installation),
        hello_(hello),
        blobs_(blobs),
        start_(start) {}

  NodePorts make() {
    const auto offers = capacities_of(hello_, start_);
    Machine machine = hello_.machine;
    for (const Capacities& offer : offers) {
      if (!device_of(offer.location).empty()) machine.gpus.push_back(offer.gpu);
    }
    auto kept = std::make_shared<Kept>(
        std::make_unique<KernelCache>(folder_.builds(), scratch_.folder(),
                                      make_workshop(installation_, machine)));
    cache_ = kept->cache.get();
    library_ = &kept->library;
    made_.keeps = kept;
    made_.ports[address::build] =
        std::make_unique<BuildPort>(blobs_, *cache_, slots_of(hello_, "cpu"));
    const GpuList present = offers.size() > 1 ? list_gpus() : GpuList();
    for (const Capacities& offer : offers) {
      const std::string uuid = device_of(offer.location);
      if (uuid.empty()) {
        add(offer, "", "cpu",
            std::min(slots_of(hello_, "cpu"), kOracleSlotsMax));
        continue;
      }
      const auto found =
          std::ranges::find(present.devices, uuid, &GpuDevice::uuid);
      if (found == present.devices.end()) continue;
      const auto number = found - present.devices.begin();
      add(offer, uuid, "cuda:" + std::to_string(number), kGpuUnits);
    }
    // As at a head that judges (production.cpp): one of its nodes checks the
    // whole, and in a bench there is mostly one.
    const bool is_warmed =
        !start_.machine.gpus.empty() || start_.options.budget_ms > 0;
    if (is_warmed && !verifiers_.empty() &&
        !head_can(start_, capability::judge)) {
      verifiers_.front()->warm_up(start_);
    }
    made_.free_space = empties(std::move(verifiers_));
    return std::move(made_);
  }

 private:
  /// Objects that the ports use for as long as they live.
  struct Kept {
    explicit Kept(std::unique_ptr<KernelCache> built)
        : cache(std::move(built)) {}
    std::unique_ptr<KernelCache> cache;
    Library library{""};  // a node keeps no graphs
  };

  void add(const Capacities& offer, const std::string& uuid,
           const std::string& device, int slots) {
    const std::string suffix = uuid.empty() ? "" : "/" + uuid;
    if (has_capability(offer.capabilities, capability::capture)) {
      made_.ports[address::capture + suffix] = std::make_unique<CapturePort>(
          blobs_, installation_, scratch_.folder(),
          capture_limits(start_.options), *library_, device, offer.gpu.name);
    }
    if (!has_capability(offer.capabilities, capability::judge)) return;
    const std::string name = uuid.empty() ? "cpu" : uuid;
    VerifyPort::Options verify;
    verify.installation = installation_;
    verify.scratch = scratch_.folder() / name;
    verify.logs = folder_.logs() / name;
    verify.slots = slots;
    if (device == "cpu") verify.patience_ms = kOracleStartMs;
    verify.device = device;
    verify.arch = offer.gpu.arch;
    verify.threads = hello_.machine.cores;
    VerifyPort::take_run(verify, start_);
    auto port =
        std::make_unique<VerifyPort>(blobs_, *cache_, std::move(verify));
    verifiers_.push_back(port.get());
    made_.ports[address::verify + suffix] = std::move(port);
  }

  const RunDirectory& folder_;
  const Scratch& scratch_;
  const Installation& installation_;
  const wire::Hello& hello_;
  Blobs& blobs_;
  const RunStart& start_;
  KernelCache* cache_ = nullptr;
  Library* library_ = nullptr;
  std::vector<VerifyPort*> verifiers_;  // made_.ports' own
  NodePorts made_;
};

}  // namespace

NodePorts make_node_ports(const RunDirectory& folder, const Scratch& scratch,
                          const Installation& installation,
                          const wire::Hello& hello, Blobs& blobs,
                          const RunStart& start) {
  clear(folder.builds());
  return PortMaker(folder, scratch, installation, hello, blobs, start).make();
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
