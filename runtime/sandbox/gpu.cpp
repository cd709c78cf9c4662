#include "runtime/sandbox/gpu.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

// From NVIDIA's cuda.h and nvml.h, whose numbers are part of the binary
// interface: they do not change.
constexpr int kMultiprocessors = 16;
constexpr int kL2CacheBytes = 38;
constexpr int kResidentThreads = 39;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
constexpr int kSharedBytesOptIn = 97;
constexpr unsigned kClockOfMultiprocessors = 1;
constexpr unsigned kClockOfMemory = 2;
constexpr std::size_t kTextBytes = 256;

struct CuUuid {
  unsigned char bytes[16];
};
struct NvmlDevice;

/// Stays open: the driver has threads and handlers of its own.
class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) error_text_ = dlerror();
  }
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error_text() const { return error_text_; }
  void* find(const char* name) const { return dlsym(handle_, name); }

  /// The library's own status, zero when all is well; not zero, too, where it
  /// has no such function.
  template <class... Args>
  int call(const char* name, Args... args) const {
    const auto called = reinterpret_cast<int (*)(Args...)>(find(name));
    return called ? called(args...) : -1;
  }

 private:
  void* handle_ = nullptr;
  std::string error_text_;
};

std::int64_t attribute(const Library& cuda, int which, int device) {
  int value = 0;
  const int error =
      cuda.call<int*, int, int>("cuDeviceGetAttribute", &value, which, device);
  return error == 0 ? value : 0;
}

std::string uuid_text(const CuUuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    text += digits;
  }
  return text;
}

GpuDevice describe(const Library& cuda, int index) {
  GpuDevice device;
  Gpu& facts = device.facts;
  int handle = 0;
  if (cuda.call<int*, int>("cuDeviceGet", &handle, index) != 0) return device;
  std::array<char, kTextBytes> name{};
  cuda.call<char*, int, int>("cuDeviceGetName", name.data(), kTextBytes - 1,
                             handle);
  facts.name = name.data();
  facts.arch = "sm_" +
               std::to_string(attribute(cuda, kCapabilityMajor, handle)) +
               std::to_string(attribute(cuda, kCapabilityMinor, handle));
  facts.sms = static_cast<int>(attribute(cuda, kMultiprocessors, handle));
  facts.resident_threads =
      static_cast<int>(attribute(cuda, kResidentThreads, handle));
  facts.l2_bytes = attribute(cuda, kL2CacheBytes, handle);
  facts.shared_bytes = attribute(cuda, kSharedBytesOptIn, handle);
  std::size_t bytes = 0;
  cuda.call<std::size_t*, int>("cuDeviceTotalMem_v2", &bytes, handle);
  facts.memory_bytes = static_cast<std::int64_t>(bytes);
  CuUuid uuid{};
  if (cuda.call<CuUuid*, int>("cuDeviceGetUuid", &uuid, handle) == 0) {
    device.uuid = uuid_text(uuid);
  }
  return device;
}

/// NVML's order of devices is another one: they are found by their uuid.
void add_clocks(const Library& nvml, GpuDevice& device) {
  NvmlDevice* handle = nullptr;
  if (nvml.call<const char*, NvmlDevice**>("nvmlDeviceGetHandleByUUID",
                                           device.uuid.c_str(), &handle) != 0) {
    return;
  }
  const auto clock_mhz = [&](unsigned which) {
    unsigned mhz = 0;
    nvml.call<NvmlDevice*, unsigned, unsigned*>("nvmlDeviceGetMaxClockInfo",
                                                handle, which, &mhz);
    return static_cast<int>(mhz);
  };
  device.clock_mhz = clock_mhz(kClockOfMultiprocessors);
  device.memory_mhz = clock_mhz(kClockOfMemory);
}

void add_management(const Library& nvml, GpuList& list) {
  if (!nvml || nvml.call<>("nvmlInit_v2") != 0) return;
  std::array<char, kTextBytes> version{};
  if (nvml.call<char*, unsigned>("nvmlSystemGetDriverVersion", version.data(),
                                 kTextBytes - 1) == 0) {
    list.driver_version = version.data();
  }
  for (GpuDevice& device : list.devices) add_clocks(nvml, device);
  nvml.call<>("nvmlShutdown");
}

std::string error_name(const Library& cuda, int error) {
  const char* name = nullptr;
  cuda.call<int, const char**>("cuGetErrorName", error, &name);
  return name ? name : "error " + std::to_string(error);
}

}  // namespace

GpuList list_gpus(const GpuLibraries& libraries) {
  GpuList list;
  const Library cuda(libraries.cuda);
  if (!cuda) {
    list.why_none = "no NVIDIA driver (" + cuda.error_text() + ")";
    return list;
  }
  int count = 0;
  int error = cuda.call<unsigned>("cuInit", 0U);
  if (error == 0) error = cuda.call<int*>("cuDeviceGetCount", &count);
  if (error != 0) {
    list.why_none =
        "NVIDIA's driver does not start: " + error_name(cuda, error) +
        "; 'nvidia-smi' may say more, and whether /dev/nvidia* "
        "can be opened";
    return list;
  }
  for (int i = 0; i < count; ++i) list.devices.push_back(describe(cuda, i));
  if (count == 0) list.why_none = "NVIDIA's driver finds no device";
  add_management(Library(libraries.nvml), list);
  return list;
}

fs::path gpu_driver_folder(const GpuLibraries& libraries) {
  const Library cuda(libraries.cuda);
  Dl_info info{};
  const void* function = cuda ? cuda.find("cuInit") : nullptr;
  if (!function || dladdr(function, &info) == 0) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

}  // namespace weft
