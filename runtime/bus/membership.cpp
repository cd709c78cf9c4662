#include "runtime/bus/membership.hpp"

#include <unistd.h>

#include <random>

#include "actors/device.hpp"
#include "runtime/sandbox/gpu.hpp"

namespace weft {
namespace {

std::string differs(const std::string& what, const std::string& node,
                    const std::string& run) {
  return "its " + what + " is " + (node.empty() ? "none" : node) +
         ", the run's " + (run.empty() ? "none" : run);
}

std::string random_name() {
  std::random_device chance;
  std::string name;
  for (int i = 0; i < 4; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", chance());
    name += digits;
  }
  return name;
}

/// Of what a probe tells: 10^9 bytes or 10^12 operations a second, or clusters.
constexpr double kReachedMax = 1e9;

/// Of what a node says, what a device can have reached.
std::map<std::string, double> sane(std::map<std::string, double> numbers) {
  std::erase_if(numbers, [](const auto& item) {
    return !(item.second > 0 && item.second <= kReachedMax);
  });
  return numbers;
}

}  // namespace

wire::Hello make_hello(const Installation& installation,
                       const std::string& weft_version, bool devices) {
  wire::Hello hello;
  hello.wire_min = wire::kWireVersionMin;
  hello.wire_max = wire::kWireVersion;
  hello.weft = weft_version;
  hello.incarnation = random_name();
  hello.machine = describe_machine();
  hello.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                       sysconf(_SC_PAGESIZE);
  hello.slots = {{"cpu", hello.machine.cores}};
  hello.python = installation.python_version;
  hello.torch = installation.torch_version;
  hello.triton = installation.triton_version;
  hello.nvrtc = installation.nvrtc;
  const GpuList gpus = devices ? list_gpus() : GpuList();
  hello.driver = gpus.driver_version;
  for (const GpuDevice& device : gpus.devices) {
    hello.devices.push_back({device.uuid, device.facts});
    hello.devices.back().facts.uuid = device.uuid;
  }
  return hello;
}

std::string why_unlike(const wire::Hello& hello, const RunStart& start,
                       const wire::Hello& own) {
  if (hello.weft != start.weft_version) {
    return differs("weft", hello.weft, start.weft_version) +
           ": install the same on both";
  }
  if (hello.torch != own.torch) {
    return differs("PyTorch", hello.torch, own.torch);
  }
  if (start.options.target != "cpu") {
    if (hello.triton != own.triton) {
      return differs("Triton", hello.triton, own.triton);
    }
    // Which one it is, is known by its file alone; PyTorch brings it.
    if (hello.nvrtc.empty() != own.nvrtc.empty()) {
      return hello.nvrtc.empty()
                 ? "it has no NVRTC, and the run's machine has"
                 : "it has NVRTC, and the run's machine has none";
    }
  }
  // A node without GPUs builds for those of others, and shows no driver.
  const bool brings_gpus =
      !start.machine.gpus.empty() && !hello.devices.empty();
  if (brings_gpus && hello.driver != own.driver) {
    return differs("GPU driver", hello.driver, own.driver);
  }
  if (hello.machine.name != start.machine.name) {
    return differs("processor", hello.machine.name, start.machine.name);
  }
  if (hello.machine.vector_bytes != start.machine.vector_bytes) {
    return differs("vector width", std::to_string(hello.machine.vector_bytes),
                   std::to_string(start.machine.vector_bytes));
  }
  if (start.machine.gpus.empty() &&
      hello.machine.cores != start.machine.cores) {
    return differs("number of cores", std::to_string(hello.machine.cores),
                   std::to_string(start.machine.cores));
  }
  return "";
}

std::vector<wire::Device> devices_for(const wire::Hello& hello,
                                      const RunStart& start) {
  std::vector<wire::Device> fitting;
  if (start.machine.gpus.empty()) return fitting;
  const Gpu& wanted = start.machine.gpus.front();
  for (const wire::Device& device : hello.devices) {
    const bool is_like = device.facts.name == wanted.name &&
                         device.facts.arch == wanted.arch &&
                         device.facts.memory_bytes == wanted.memory_bytes;
    if (is_like) fitting.push_back(device);
  }
  return fitting;
}

std::vector<Capacities> capacities_of(const wire::Hello& hello,
                                      const RunStart& start) {
  std::vector<Capacities> all(1);
  all.front().location = hello.name;
  for (const auto& [resource, units] : hello.slots) {
    if (units > 0) all.front().units[resource] = units;
  }
  for (const wire::Device& device : devices_for(hello, start)) {
    Capacities& more = all.emplace_back();
    more.location = hello.name + "/" + device.uuid;
    more.units = {{"gpu", kGpuUnits}, {gpu_memory, device.facts.memory_bytes}};
    more.gpu = device.facts;
    more.gpu_numbers = sane(device.numbers);
  }
  return all;
}

}  // namespace weft
