#include "runtime/sandbox/gpu_sandbox.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/sandbox/gpu.hpp"

namespace weft {
namespace {

/// CUDA's threads, and the compilers that a composed module's own Triton
/// starts.
constexpr int kGpuProcesses = 1024;

/// Parts of a device's memory that are locked one by one: ROOM_PARTS of
/// python/weft/device/gpu_lock.py, which names the files, too.
constexpr int kRoomParts = 16;

/// For all users, as open_lock_file() of gpu_lock.py makes one.
void make_lock_file(const std::filesystem::path& path) {
  constexpr mode_t kReadableByAll = 0644;
  const int made =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL,
           kReadableByAll);
  if (made < 0) return;  // it is there, or the box goes without it
  [[maybe_unused]] const int done = fchmod(made, kReadableByAll);
  close(made);
}

/// A box cannot make them: a lock that it made would be its own alone.
void make_gpu_locks(const std::filesystem::path& folder) {
  static const GpuList list = list_gpus();
  for (const GpuDevice& device : list.devices) {
    constexpr std::string_view kPrefix = "GPU-";
    const std::string uuid = device.uuid.starts_with(kPrefix)
                                 ? device.uuid.substr(kPrefix.size())
                                 : device.uuid;
    const std::string stem = (folder / ("weft-gpu-" + uuid)).string();
    for (const char* of : {".turn", ".lock", ".room"}) {
      make_lock_file(stem + of);
    }
    for (int part = 0; part < kRoomParts; ++part) {
      make_lock_file(stem + ".room" + std::to_string(part));
    }
  }
}

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
  make_gpu_locks(folder);
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
