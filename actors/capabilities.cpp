#include "actors/capabilities.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "actors/device.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

bool is_gpu(const DeviceClass& device_class) {
  return !device_class.arch.empty();
}

bool is_allowed(const MachineFacts& facts, std::string_view work) {
  return facts.only.empty() || has_capability(facts.only, work);
}

/// The targets that build the run's kernels.
std::vector<std::string_view> builders_of(std::string_view name) {
  const Target* target = find_target(name);
  if (target == nullptr) return {};
  if (target->members.empty()) return {target->name};
  return target->members;
}

bool can_build(const MachineFacts& facts, const DeviceClass& timing_class,
               std::string_view name) {
  const Target* target = find_target(name);
  if (target == nullptr) return false;
  if (!target->on_gpu) {
    return !facts.compiler.empty() && facts.compiler == timing_class.compiler &&
           facts.machine.name == timing_class.device &&
           facts.machine.vector_bytes == timing_class.vector_bytes;
  }
  if (target->needs_nvrtc) return facts.has_nvrtc;
  return !facts.triton.empty() && facts.triton == timing_class.triton &&
         facts.torch == timing_class.torch;
}

bool can_build_all(const MachineFacts& facts, const DeviceClass& timing_class,
                   std::string_view target) {
  const auto builders = builders_of(target);
  return !builders.empty() &&
         std::ranges::all_of(builders, [&](std::string_view name) {
           return can_build(facts, timing_class, name);
         });
}

bool can_judge(const MachineFacts& facts, const DeviceClass& own,
               const DeviceClass& timing_class, std::string_view target) {
  return is_allowed(facts, capability::judge) && !facts.torch.empty() &&
         own == timing_class && can_build_all(facts, timing_class, target);
}

bool can_capture(const MachineFacts& facts, const DeviceClass& timing_class) {
  return is_allowed(facts, capability::capture) && !facts.torch.empty() &&
         facts.torch == timing_class.torch;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return out;
}

}  // namespace

std::string capability::build(std::string_view target) {
  return "build " + std::string(target);
}

bool has_capability(const std::vector<std::string>& capabilities,
                    std::string_view capability) {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

DeviceClass processor_class(const MachineFacts& facts,
                            std::string_view target) {
  DeviceClass found;
  found.device = facts.machine.name;
  found.vector_bytes = facts.machine.vector_bytes;
  found.cores = facts.machine.cores;
  found.compiler = facts.compiler;
  found.torch = facts.torch;
  const Target* wanted = find_target(target);
  if (wanted && wanted->on_gpu) found.triton = facts.triton;
  return found;
}

DeviceClass gpu_class(const MachineFacts& facts, const Gpu& gpu) {
  DeviceClass found;
  found.device = gpu.name;
  found.arch = gpu.arch;
  found.memory_bytes = gpu.memory_bytes;
  found.driver = facts.driver;
  found.torch = facts.torch;
  found.triton = facts.triton;
  return found;
}

DeviceClass class_of(const MachineFacts& facts, const std::vector<Gpu>& gpus,
                     std::string_view target) {
  return gpus.empty() ? processor_class(facts, target)
                      : gpu_class(facts, gpus.front());
}

std::string class_name(const DeviceClass& device_class) {
  const DeviceClass& of = device_class;
  if (of.device.empty()) return "";
  std::string text = of.device;
  if (is_gpu(of)) {
    text += ", " + of.arch + ", " + std::to_string(of.memory_bytes >> 20) +
            " MiB, driver " + of.driver;
  } else {
    text += ", " + std::to_string(of.cores) + " cores, " +
            std::to_string(8 * of.vector_bytes) + "-bit vectors, " +
            of.compiler;
  }
  text += ", PyTorch " + of.torch;
  return of.triton.empty() ? text : text + ", Triton " + of.triton;
}

std::vector<std::string> machine_capabilities(const MachineFacts& facts,
                                              const DeviceClass& timing_class,
                                              std::string_view target) {
  std::vector<std::string> all;
  const bool is_processors = !is_gpu(timing_class);
  if (is_processors && can_capture(facts, timing_class)) {
    all.push_back(capability::capture);
  }
  const bool judges =
      is_processors &&
      can_judge(facts, processor_class(facts, target), timing_class, target);
  if (judges) all.push_back(capability::judge);
  if (judges || !is_allowed(facts, "build")) return all;
  // With a GPU that judges, the machine's cores build for that one.
  const bool has_judge =
      std::ranges::any_of(facts.machine.gpus, [&](const Gpu& gpu) {
        return can_judge(facts, gpu_class(facts, gpu), timing_class, target);
      });
  if (has_judge) return all;
  for (const std::string_view name : builders_of(target)) {
    if (can_build(facts, timing_class, name)) {
      all.push_back(capability::build(name));
    }
  }
  return all;
}

std::vector<std::string> gpu_capabilities(const MachineFacts& facts,
                                          const Gpu& gpu,
                                          const DeviceClass& timing_class,
                                          std::string_view target) {
  std::vector<std::string> all;
  if (!is_gpu(timing_class)) return all;
  if (can_capture(facts, timing_class)) all.push_back(capability::capture);
  if (can_judge(facts, gpu_class(facts, gpu), timing_class, target)) {
    all.push_back(capability::judge);
  }
  return all;
}

std::vector<TimingClass> timing_classes(const std::vector<MachineFacts>& all,
                                        std::string_view target) {
  std::map<std::string, TimingClass> found;
  const auto add = [&](const MachineFacts& facts, const DeviceClass& own,
                       std::string_view run_target, const Gpu& gpu) {
    if (!can_judge(facts, own, own, run_target)) return false;
    auto [item, is_new] = found.try_emplace(class_name(own));
    if (is_new) {
      item->second = {own, 0, std::string(run_target), facts, gpu};
    }
    ++item->second.devices;
    return true;
  };
  const bool decides = target == kAutomaticTarget;
  for (const MachineFacts& facts : all) {
    const std::string_view on_gpu =
        decides ? automatic_target(true, facts.has_nvrtc) : target;
    const Target* wanted = find_target(on_gpu);
    if (wanted == nullptr) continue;
    bool has_gpu = false;
    if (wanted->on_gpu) {
      for (const Gpu& gpu : facts.machine.gpus) {
        if (add(facts, gpu_class(facts, gpu), on_gpu, gpu)) has_gpu = true;
      }
    }
    if (has_gpu || (wanted->needs_gpu && !decides)) continue;
    const std::string_view on_processor =
        decides ? automatic_target(false, facts.has_nvrtc) : target;
    add(facts, processor_class(facts, on_processor), on_processor, {});
  }
  // Where some machine has a GPU, "auto" is for GPUs.
  const bool has_gpus = std::ranges::any_of(
      found, [](const auto& item) { return is_gpu(item.second.device_class); });
  std::vector<TimingClass> classes;
  for (auto& [name, item] : found) {
    if (has_gpus && !is_gpu(item.device_class)) continue;
    classes.push_back(std::move(item));
  }
  return classes;
}

const TimingClass* choose_class(const std::vector<TimingClass>& classes,
                                std::string_view wanted, bool is_whole) {
  const TimingClass* best = nullptr;
  for (const TimingClass& item : classes) {
    const std::string name = lower(class_name(item.device_class));
    if (is_whole ? name != lower(wanted) : !name.contains(lower(wanted))) {
      continue;
    }
    if (best == nullptr || item.devices > best->devices) best = &item;
  }
  return best;
}

bool has_class(const RunStart& run) { return !run.device_class.device.empty(); }

bool head_can(const RunStart& run, std::string_view capability) {
  return !has_class(run) || has_capability(run.head_can, capability);
}

void place(LeaseTerms& terms, const RunStart& run,
           const std::string& capability) {
  if (head_can(run, capability)) {
    terms.locations = head_locations(run);
    return;
  }
  terms.capability = capability;
  terms.wait_ms = run.node_wait_ms;
}

}  // namespace weft
