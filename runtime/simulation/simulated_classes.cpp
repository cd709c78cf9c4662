#include "runtime/simulation/simulated_classes.hpp"

#include <string>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"

namespace weft {
namespace {

/// Facts of a machine of that class. The first two differ by their cores alone,
/// so that one builds for the other.
MachineFacts facts_of_class(std::int64_t number, bool has_gpu) {
  MachineFacts facts;
  facts.machine.name = "processor " + std::to_string(number / 2);
  facts.machine.cores = static_cast<int>(1 + number % 2);
  facts.torch = "2.13";
  facts.compiler = "g++ 12";
  if (!has_gpu) return facts;
  Gpu gpu{"GPU " + std::to_string(number), "sm_90",  132,
          std::int64_t{80} << 30,          50 << 20, 227 << 10};
  facts.machine.gpus = {gpu};
  return facts;
}

/// One of the classes; half of the time the run's own.
std::int64_t pick_class(const RunStart& start, int classes, Random& random) {
  const bool has_gpu = !start.machine.gpus.empty();
  const std::int64_t picked = pick(random, classes);
  if (happens(random, 500)) return picked;
  for (std::int64_t number = 0; number < classes; ++number) {
    const MachineFacts facts = facts_of_class(number, has_gpu);
    if (class_of(facts, facts.machine.gpus, start.options.target) ==
        start.device_class) {
      return number;
    }
  }
  return picked;
}

}  // namespace

void add_classes(RunStart& start, int classes, Random& random) {
  start.vocabulary = vocabulary_version;
  const bool has_gpu = happens(random, 500);
  const MachineFacts of_run = facts_of_class(pick(random, classes), has_gpu);
  start.machine = of_run.machine;
  start.device_class =
      class_of(of_run, of_run.machine.gpus, start.options.target);
  start.node_wait_ms = 60'000;
  start.head_cores = static_cast<int>(1 + pick(random, 4));
  if (happens(random, 400)) {
    start.head_can = {capability::capture, capability::judge};
    if (has_gpu) start.machine.gpus.front().uuid = "GPU-of-head";
    return;
  }
  if (!has_gpu && happens(random, 300)) {
    start.head_can.push_back(capability::capture);
  }
  if (happens(random, 500)) {
    start.head_can.push_back(capability::build(start.options.target));
  }
}

std::vector<Capacities> simulated_nodes(const RunStart& start, int classes,
                                        Random& random) {
  std::vector<Capacities> all;
  const bool has_gpu = !start.machine.gpus.empty();
  const auto nodes = 1 + pick(random, 6);
  for (std::int64_t i = 0; i < nodes; ++i) {
    MachineFacts facts =
        facts_of_class(pick_class(start, classes, random), has_gpu);
    if (happens(random, 200)) facts.torch.clear();
    if (happens(random, 200)) facts.only = {"build"};
    Capacities machine;
    machine.location = "n" + std::to_string(i);
    machine.units = {{"cpu", 1 + pick(random, 4)}};
    machine.capabilities =
        machine_capabilities(facts, start.device_class, start.options.target);
    if (!has_gpu) {
      machine.device_class =
          class_name(processor_class(facts, start.options.target));
    }
    all.push_back(machine);
    if (!has_gpu) continue;
    Capacities device;
    device.gpu = facts.machine.gpus.front();
    device.gpu.uuid = "GPU-of-" + machine.location;
    device.location = machine.location + "/" + device.gpu.uuid;
    device.units = {{"gpu", kGpuUnits}, {gpu_memory, device.gpu.memory_bytes}};
    device.device_class = class_name(gpu_class(facts, device.gpu));
    device.capabilities = gpu_capabilities(
        facts, device.gpu, start.device_class, start.options.target);
    if (!device.capabilities.empty()) all.push_back(std::move(device));
  }
  return all;
}

}  // namespace weft
