#include "runtime/machine/device_choice.hpp"

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

Gpu gpu_of(const GpuDevice& device) {
  Gpu gpu = device.facts;
  gpu.uuid = device.uuid;
  return gpu;
}

std::unexpected<Error> no_such_gpu(const std::string& name,
                                   const GpuList& list) {
  const auto count = list.devices.size();
  const std::string there =
      count == 0   ? "there is none (" + list.why_none + ")"
      : count == 1 ? "there is GPU 0 alone"
                   : "there are GPUs 0 to " + std::to_string(count - 1);
  return fail(ErrorCode::wrong_input,
              "no GPU '" + name + "': " + there + "; 'weft doctor' lists them");
}

/// By its number, or by what its UUID alone begins with.
Result<std::size_t> find_gpu(const std::string& name, const GpuList& list) {
  const auto& devices = list.devices;
  std::size_t number = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    if (number < devices.size()) return number;
    return no_such_gpu(name, list);
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!name.empty() && devices[i].uuid.starts_with(name)) found.push_back(i);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return no_such_gpu(name, list);
  return fail(ErrorCode::wrong_input, std::to_string(found.size()) +
                                          " GPUs' UUIDs begin with '" + name +
                                          "': write more of it");
}

}  // namespace

Result<std::vector<Gpu>> choose_gpus(const std::vector<std::string>& wanted,
                                     int device, const GpuList& list) {
  std::vector<Gpu> gpus;
  if (wanted.empty()) {
    const auto number = static_cast<std::size_t>(std::max(0, device));
    if (number < list.devices.size()) {
      gpus.push_back(gpu_of(list.devices[number]));
    }
    return gpus;
  }
  const auto add = [&](const GpuDevice& chosen) {
    const Gpu gpu = gpu_of(chosen);
    if (std::ranges::find(gpus, gpu) == gpus.end()) gpus.push_back(gpu);
  };
  for (const std::string& name : wanted) {
    if (name == "all") {
      std::ranges::for_each(list.devices, add);
      continue;
    }
    const auto number = find_gpu(name, list);
    if (!number) return std::unexpected(number.error());
    add(list.devices[*number]);
  }
  return gpus;
}

Result<std::string> cuda_name(const Gpu& gpu, int device, const GpuList& list) {
  if (gpu.uuid.empty()) return "cuda:" + std::to_string(device);
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    if (list.devices[i].uuid == gpu.uuid) return "cuda:" + std::to_string(i);
  }
  return fail(ErrorCode::missing,
              "the run's " + gpu.name + " (" + gpu.uuid +
                  ") is not in this machine any more: resume where it is");
}

}  // namespace weft
