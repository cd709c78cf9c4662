// The machine's GPUs, as NVIDIA's driver tells of them. The driver is opened at
// run time: weft itself needs none, and a machine without one runs everything
// else.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "messages/run.hpp"

namespace weft {

/// One device, in CUDA's order.
struct GpuDevice {
  Gpu facts;
  std::string uuid;    ///< "GPU-8a5c…"; the same in every order of devices
  int clock_mhz = 0;   ///< of the multiprocessors, at most; 0: not told
  int memory_mhz = 0;  ///< of the memory, at most; 0: not told
};

struct GpuList {
  std::vector<GpuDevice> devices;
  std::string why_none;        ///< why the list is empty, for people
  std::string driver_version;  ///< "580.95.05"; empty: not told
};

/// The libraries' names, as the loader is asked for them.
struct GpuLibraries {
  std::string cuda = "libcuda.so.1";
  std::string nvml = "libnvidia-ml.so.1";
};

/// Asks the driver anew each time. It makes no context on a device, so it
/// takes no device memory.
GpuList list_gpus(const GpuLibraries& libraries = {});

/// The folder that the driver's library is found in; empty where there is none.
/// A sandbox shows the system's own folders; another has to be added. Nothing
/// is asked of the driver: it answers one process at a time, on a host with
/// eight devices in a third of a second.
std::filesystem::path gpu_driver_folder(const GpuLibraries& libraries = {});

}  // namespace weft
