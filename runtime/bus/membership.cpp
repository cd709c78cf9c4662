#include "runtime/bus/membership.hpp"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>

#include "actors/device.hpp"
#include "runtime/sandbox/gpu.hpp"

namespace weft {
namespace {

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

/// The most of a probe: 10^9 bytes or 10^12 operations a second, or clusters.
constexpr double kReachedMax = 1e9;

}  // namespace

std::map<std::string, double> believed_numbers(const wire::Device& device) {
  std::map<std::string, double> numbers = device.numbers;
  std::erase_if(numbers, [](const auto& item) {
    return !(item.second > 0 && item.second <= kReachedMax);
  });
  return numbers;
}

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
  if (!find_compiler().empty()) {
    hello.compiler =
        find_compiler().filename().string() + " " + compiler_version();
  }
  const GpuList gpus = devices ? list_gpus() : GpuList();
  hello.driver = gpus.driver_version;
  for (const GpuDevice& device : gpus.devices) {
    hello.devices.push_back({device.uuid, device.facts});
    hello.devices.back().facts.uuid = device.uuid;
  }
  return hello;
}

MachineFacts facts_of(const wire::Hello& hello) {
  MachineFacts facts;
  facts.machine = hello.machine;
  facts.machine.gpus.clear();
  for (const wire::Device& device : hello.devices) {
    facts.machine.gpus.push_back(device.facts);
  }
  facts.torch = hello.torch;
  facts.triton = hello.triton;
  facts.has_nvrtc = !hello.nvrtc.empty();
  facts.driver = hello.driver;
  facts.compiler = hello.compiler;
  facts.only = hello.only;
  return facts;
}

std::string why_refused(const wire::Hello& hello, const RunStart& start) {
  if (hello.weft == start.weft_version) return "";
  return "its weft is " + (hello.weft.empty() ? "none" : hello.weft) +
         ", the run's " + start.weft_version + ": install the same on both";
}

std::string why_no_judge(const wire::Hello& hello, const RunStart& start) {
  const std::string why = why_refused(hello, start);
  if (!why.empty()) return why;
  const auto all = capacities_of(hello, start);
  const bool judges = std::ranges::any_of(all, [](const Capacities& offer) {
    return has_capability(offer.capabilities, capability::judge);
  });
  return judges ? ""
                : "the run was begun by an earlier weft, and needs nodes that "
                  "are " +
                      class_name(start.device_class);
}

std::vector<Capacities> capacities_of(const wire::Hello& hello,
                                      const RunStart& start) {
  const MachineFacts facts = facts_of(hello);
  const std::string& target = start.options.target;
  std::vector<Capacities> all(1);
  Capacities& machine = all.front();
  machine.location = hello.name;
  for (const auto& [resource, units] : hello.slots) {
    if (units > 0) machine.units[resource] = units;
  }
  machine.capabilities =
      machine_capabilities(facts, start.device_class, target);
  if (start.machine.gpus.empty()) {
    machine.device_class = class_name(processor_class(facts, target));
  }
  for (const wire::Device& device : hello.devices) {
    Capacities offer;
    offer.location = hello.name + "/" + device.uuid;
    offer.units = {{"gpu", kGpuUnits}, {gpu_memory, device.facts.memory_bytes}};
    offer.gpu = device.facts;
    offer.gpu_numbers = believed_numbers(device);
    offer.device_class = class_name(gpu_class(facts, device.facts));
    offer.capabilities =
        gpu_capabilities(facts, device.facts, start.device_class, target);
    if (!offer.capabilities.empty()) all.push_back(std::move(offer));
  }
  return all;
}

std::string capabilities_text(const std::vector<Capacities>& all) {
  std::set<std::string> found;
  for (const Capacities& offer : all) {
    found.insert(offer.capabilities.begin(), offer.capabilities.end());
  }
  std::string text;
  for (const std::string& name : found) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "nothing for this run" : text;
}

}  // namespace weft
