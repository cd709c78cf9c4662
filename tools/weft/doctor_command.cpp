#include "tools/weft/doctor_command.hpp"

#include <cstdio>
#include <string>

#include "messages/shown_text.hpp"
#include "runtime/machine/bytecode.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/ports/gpu_probe.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"
#include "tools/weft/envelope_format.hpp"
#include "tools/weft/sandbox_advice.hpp"
#include "tools/weft/tiny_run.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

void line(bool good, const std::string& what, const std::string& remark) {
  std::printf("  %-4s %s%s%s\n", good ? "ok" : "no", what.c_str(),
              remark.empty() ? "" : ": ", remark.c_str());
}

std::string facts_of(const GpuDevice& device) {
  const Gpu& gpu = device.facts;
  std::string text = gpu.arch + ", " + std::to_string(gpu.sms) +
                     " multiprocessors, " +
                     std::to_string(gpu.memory_bytes >> 30) + " GiB, L2 " +
                     std::to_string(gpu.l2_bytes >> 20) + " MiB";
  if (device.clock_mhz > 0) {
    text += ", up to " + std::to_string(device.clock_mhz) + " MHz, memory " +
            std::to_string(device.memory_mhz) + " MHz";
  }
  return text;
}

/// What a device reached, measured once and then remembered.
void measured_line(const Installation& installation, const GpuList& gpus,
                   std::size_t number) {
  const auto measured = measure_gpu(installation, gpus, number);
  if (!measured) return line(false, "measured", measured.error().message);
  std::string text;
  for (const auto& [name, value] : *measured) {
    char figure[64];
    std::snprintf(figure, sizeof figure, "%s%s %.5g", text.empty() ? "" : ", ",
                  name.c_str(), value);
    text += figure;
  }
  line(true, "measured", text);
}

/// No run needs a GPU: the targets that want one are proven without.
void gpu_lines(const Result<Installation>& installation) {
  const GpuList gpus = list_gpus();
  std::printf("GPU\n");
  if (gpus.devices.empty()) return line(false, "GPU", gpus.why_none);
  if (!gpus.driver_version.empty()) {
    line(true, "driver", gpus.driver_version);
  }
  const bool can_measure = installation && check_torch(*installation);
  for (std::size_t i = 0; i < gpus.devices.size(); ++i) {
    const GpuDevice& device = gpus.devices[i];
    line(true, std::to_string(i) + " " + device.facts.name, facts_of(device));
    if (can_measure) measured_line(*installation, gpus, i);
  }
}

/// Makes it where it lacks, as the first run would.
void bytecode_line(Installation& installation) {
  const auto stored = keep_bytecode(installation, [](const std::string&) {});
  line(stored.has_value(), "bytecode",
       !stored ? stored.error().message
       : installation.has_bytecode
           ? "PyTorch's own"
           : "weft's own: " + installation.bytecode.string());
}

/// Whether a run can start here.
bool python_lines(Result<Installation>& installation) {
  if (!installation) {
    line(false, "Python", installation.error().message);
    return false;
  }
  line(true, "Python " + installation->python_version,
       installation->python.string() + ", from " + installation->python_from);
  line(true, "Python side", installation->worker_path.string());
  const auto torch = check_torch(*installation);
  line(torch.has_value(), "PyTorch",
       torch ? installation->torch_version : torch.error().message);
  if (torch) bytecode_line(*installation);
  // One target's need: a run for another starts without.
  const auto triton = check_triton(*installation);
  line(triton.has_value(), "Triton",
       triton ? installation->triton_version : triton.error().message);
  const auto nvrtc = check_nvrtc(*installation);
  line(nvrtc.has_value(), "NVRTC",
       nvrtc ? "builds CUDA kernels" : nvrtc.error().message);
  return torch.has_value();
}

/// Whether anything can run in one: a layer of it may lack all the same.
bool sandbox_lines() {
  std::printf("sandbox\n");
  bool is_any_on = false;
  for (const Protection& layer : probe_protections()) {
    line(layer.on, layer.name, layer.remark);
    is_any_on = is_any_on || layer.on;
  }
  if (is_sandbox_off()) {
    std::printf("  --sandbox none: kernels run with all your rights\n");
  }
  return is_any_on;
}

/// Whether a run works here.
bool tiny_run_line(const Installation& installation) {
  std::printf("run\n");
  std::fflush(stdout);
  const auto answer = run_tiny_problem(installation);
  line(answer.has_value(), "a tiny problem",
       terminal_line(answer ? *answer : answer.error().message));
  return answer.has_value();
}

}  // namespace

int doctor_command(const CommonFlags& common, const DoctorFlags& flags) {
  const Machine machine = describe_machine();
  std::printf("weft %s\nmachine\n", weft_version());
  line(true, machine.name,
       std::to_string(machine.cores) + " cores, " +
           std::to_string(machine.vector_bytes * 8) + "-bit vectors, L1 " +
           std::to_string(machine.l1_bytes >> 10) + " KiB, L2 " +
           std::to_string(machine.l2_bytes >> 10) + " KiB");
  std::printf("tools\n");
  auto installation = find_installation(common.python);
  bool ready = python_lines(installation);
  const auto compiler = check_compiler();
  line(compiler.has_value(), "C++ compiler",
       compiler ? compiler_command() : compiler.error().message);
  ready = ready && compiler.has_value();
  gpu_lines(installation);
  const bool has_box = sandbox_lines();
  if (ready && !has_box && !is_sandbox_off()) {
    std::printf("to change, for a sandbox\n");
    for (const std::string& advice : sandbox_advice()) {
      std::printf("  %s\n", advice.c_str());
    }
    ready = false;
  } else if (ready && !flags.is_brief) {
    ready = tiny_run_line(*installation);
  }
  std::printf("%s\n", ready ? "ready for: weft run PROBLEM.py"
                            : "not ready: see the lines that say no");
  return ready ? 0 : 3;
}

}  // namespace weft
