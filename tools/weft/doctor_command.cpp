#include <cstdio>
#include <string>

#include "runtime/installation.hpp"
#include "runtime/sandbox.hpp"
#include "tools/weft/commands.hpp"

namespace weft {
namespace {

void line(bool good, const std::string& what, const std::string& remark) {
  std::printf("  %-4s %s%s%s\n", good ? "ok" : "no", what.c_str(),
              remark.empty() ? "" : ": ", remark.c_str());
}

/// Whether a run can start here.
bool python_lines(const CommonFlags& common) {
  const auto installation = find_installation(common.python);
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
  return torch.has_value();
}

}  // namespace

int doctor_command(const CommonFlags& common) {
  const Machine machine = describe_machine();
  std::printf("weft %s\nmachine\n", WEFT_VERSION);
  line(true, machine.name,
       std::to_string(machine.cores) + " cores, " +
           std::to_string(machine.vector_bytes * 8) + "-bit vectors, L1 " +
           std::to_string(machine.l1_bytes >> 10) + " KiB, L2 " +
           std::to_string(machine.l2_bytes >> 10) + " KiB");
  std::printf("tools\n");
  bool ready = python_lines(common);
  const auto compiler = check_compiler();
  line(compiler.has_value(), "C++ compiler",
       compiler ? compiler_command() : compiler.error().message);
  ready = ready && compiler.has_value();
  std::printf("sandbox\n");
  for (const Protection& layer : probe_protections()) {
    line(layer.on, layer.name, layer.remark);
  }
  std::printf("%s\n", ready ? "ready for: weft run PROBLEM.py"
                            : "not ready: see the lines that say no");
  return ready ? 0 : 3;
}

}  // namespace weft
