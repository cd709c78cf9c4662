#include "tools/weft/run_machine.hpp"

#include <algorithm>

#include "actors/device.hpp"
#include "compiler/targets.hpp"
#include "runtime/machine/device_choice.hpp"
#include "runtime/ports/gpu_probe.hpp"

namespace weft {
namespace {

constexpr std::int64_t kGpuTimingMs = 300;
constexpr std::int64_t kGpuFinalTimingMs = 1'500;

/// Without a GPU some targets can prove kernels, and some can do nothing.
Result<void> check_without_gpu(const RunOptions& options,
                               const Target& target) {
  if (target.needs_gpu) {
    return fail(ErrorCode::missing,
                "no CUDA device: kernels for " + options.target +
                    " cannot be checked here; --target triton checks kernels "
                    "in an interpreter, --target cpu runs them ('weft doctor' "
                    "says why)");
  }
  if (options.device > 0) {
    return fail(ErrorCode::missing,
                "there is no GPU " + std::to_string(options.device) +
                    ": 'weft doctor' lists those that there are");
  }
  return {};
}

}  // namespace

/// Events of a GPU need a fraction of the time that a processor's clock needs.
/// Durations that the user chose stay.
void shorten_timing(RunOptions& options) {
  const RunOptions usual;
  if (options.timing_ms == usual.timing_ms) options.timing_ms = kGpuTimingMs;
  if (options.final_timing_ms == usual.final_timing_ms) {
    options.final_timing_ms = kGpuFinalTimingMs;
  }
}

void limit_timing(RunOptions& options) {
  if (options.budget_ms <= 0) return;
  const RunOptions usual;
  const auto limit = [&](std::int64_t& ms, std::int64_t usual_ms,
                         std::int64_t gpu_ms, std::int64_t part,
                         std::int64_t least_ms) {
    if (ms != usual_ms && ms != gpu_ms) return;
    ms = std::min(ms, std::max(least_ms, options.budget_ms / part));
  };
  limit(options.timing_ms, usual.timing_ms, kGpuTimingMs, 100, 50);
  limit(options.final_timing_ms, usual.final_timing_ms, kGpuFinalTimingMs, 33,
        100);
}

Result<Machine> resolve_machine(RunOptions& options,
                                const Installation& installation) {
  Machine machine = describe_machine();
  const bool decides = options.target == kAutomaticTarget;
  if (!decides && !is_for_gpu(options)) return machine;
  auto gpus = choose_gpus(options.devices, options.device, list_gpus());
  if (!gpus) return std::unexpected(gpus.error());
  machine.gpus = std::move(*gpus);
  const bool has_gpu = !machine.gpus.empty();
  if (decides) {
    options.target = automatic_target(has_gpu, !installation.nvrtc.empty());
  }
  if (has_gpu) {
    shorten_timing(options);
  } else if (!decides) {
    const auto able = check_without_gpu(options, *find_target(options.target));
    if (!able) return std::unexpected(able.error());
  }
  return machine;
}

Result<void> add_gpu_numbers(Machine& machine,
                             const Installation& installation) {
  if (machine.gpus.empty()) return {};
  const GpuList list = list_gpus();
  const auto found = std::ranges::find(list.devices, machine.gpus.front().uuid,
                                       &GpuDevice::uuid);
  if (found == list.devices.end()) return {};
  auto numbers =
      measure_gpu(installation, list,
                  static_cast<std::size_t>(found - list.devices.begin()));
  if (!numbers) return std::unexpected(numbers.error());
  machine.gpu_numbers = std::move(*numbers);
  return {};
}

Result<void> add_model_facts(Machine& machine, const RunOptions& options,
                             const Installation& installation) {
  machine.versions["PyTorch"] = installation.torch_version;
  if (is_for_gpu(options)) {
    machine.versions["Triton"] = installation.triton_version;
  } else {
    machine.versions[compiler_command()] = compiler_version();
  }
  std::erase_if(machine.versions,
                [](const auto& item) { return item.second.empty(); });
  if (is_for_gpu(options)) return {};
  auto rates = measure_cpu(installation, machine.name, machine.cores);
  if (!rates) return std::unexpected(rates.error());
  machine.cpu_numbers = std::move(*rates);
  return {};
}

Result<void> check_tools(const RunOptions& options,
                         const Installation& installation) {
  if (!is_for_gpu(options)) return check_compiler();
  const bool needs_nvrtc = find_target(options.target)->needs_nvrtc;
  return needs_nvrtc ? check_nvrtc(installation) : Result<void>();
}

}  // namespace weft
