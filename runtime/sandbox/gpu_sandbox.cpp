#include "runtime/sandbox/gpu_sandbox.hpp"

#include <algorithm>
#include <cstdlib>

#include "runtime/sandbox/gpu.hpp"

namespace weft {
namespace {

/// CUDA's threads, and the compilers that a composed module's own Triton
/// starts.
constexpr int kGpuProcesses = 1024;

}  // namespace

void show_gpu(SandboxRequest& sandbox) {
  sandbox.gpu = true;
  // Inside, a device has to have the number that it has outside.
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    if (const char* value = std::getenv(name)) {
      sandbox.environment.emplace_back(name, value);
    }
  }
  sandbox.limits.processes = std::max(sandbox.limits.processes, kGpuProcesses);
  const std::filesystem::path folder = gpu_driver_folder();
  const std::string text = folder.string();
  if (text.empty() || text.starts_with("/usr/lib") ||
      text.starts_with("/lib")) {
    return;
  }
  sandbox.readable.push_back(folder);
  // The loader looks in the system's own folders only: it has to be told.
  sandbox.environment.emplace_back("LD_LIBRARY_PATH", text);
}

void show_gpu_locks(SandboxRequest& sandbox) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // No link: it would show what somebody else chose.
    if (name.starts_with("weft-gpu-") &&
        fs::is_regular_file(entry->symlink_status(error))) {
      sandbox.readable.push_back(entry->path());
    }
  }
  sandbox.environment.emplace_back("WEFT_GPU_LOCKS", folder.string());
}

}  // namespace weft
