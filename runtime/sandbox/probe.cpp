// Which protections this machine gives, found out by a sandbox that tries to
// break each: once around the inside tests, once into the memory limit.
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "runtime/sandbox/launcher.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInsideLayers[] = {
    "network namespace", "pid namespace", "read-only system", "seccomp",
    "unprivileged user", "process limit", "no new privileges"};
constexpr const char* kMemoryLayer = "tree memory limit";

/// A folder that goes with this.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = fs::temp_directory_path() / "weft-probe-XXXXXX";
    if (mkdtemp(name.data())) path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

SandboxRequest small_request(const fs::path& scratch) {
  SandboxRequest request;
  request.scratch = scratch;
  request.limits.wall_ms = 5'000;
  request.limits.memory_bytes = std::int64_t{32} << 20;
  request.limits.processes = 24;
  return request;
}

std::vector<Protection> all_off(const std::string& why) {
  std::vector<Protection> layers;
  for (const char* name : kInsideLayers) layers.push_back({name, false, why});
  layers.push_back({kMemoryLayer, false, why});
  return layers;
}

std::vector<Protection> read_layers(const std::string& lines) {
  std::vector<Protection> layers;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    const auto first = line.find('\t');
    const auto second = line.find('\t', first + 1);
    if (second == std::string::npos) continue;
    layers.push_back({line.substr(0, first),
                      line.substr(first + 1, second - first - 1) == "on",
                      line.substr(second + 1)});
  }
  return layers;
}

/// Two processes, each within its own limit, both together above the tree's.
Protection probe_memory(const fs::path& scratch) {
  auto request = small_request(scratch);
  // `tail` holds what it has read until its input ends.
  request.command = {"/bin/sh", "-c",
                     "hold() { { head -c 24m /dev/zero; sleep 3; } | "
                     "tail -c 24m >/dev/null; }; hold & hold"};
  const auto report = run_sandboxed(request);
  if (report && report->end == SandboxReport::End::out_of_memory) {
    return {kMemoryLayer, true, ""};
  }
  return {kMemoryLayer, false,
          report ? "two processes together passed the limit: /proc of the "
                   "sandbox cannot be read"
                 : report.error().message};
}

}  // namespace

std::vector<Protection> probe_protections() {
  if (is_sandbox_off()) return all_off("switched off by --sandbox none");
  const Scratch scratch;
  if (scratch.path.empty()) {
    return all_off("no folder for temporary files can be made");
  }
  auto request = small_request(scratch.path);
  request.command = {"/.weft-sandbox", "--self-test"};
  const auto report = run_sandboxed(request);
  if (!report) return all_off(report.error().message);
  auto layers = read_layers(report->out);
  if (layers.size() != std::size(kInsideLayers)) {
    return all_off("the sandbox's test of itself broke off: " + report->err);
  }
  layers.push_back(probe_memory(scratch.path));
  return layers;
}

}  // namespace weft
