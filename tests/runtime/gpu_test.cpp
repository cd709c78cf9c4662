#include "runtime/sandbox/gpu.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/ports/gpu_probe.hpp"
#include "runtime/ports/node_ports.hpp"

using namespace weft;

namespace {

const GpuLibraries fake = {WEFT_FAKE_DRIVER, WEFT_FAKE_DRIVER};

}  // namespace

TEST_CASE("a machine without a driver has no GPU, and it is said why") {
  const GpuList list = list_gpus({"libno-such-cuda.so.1", "libno-such.so.1"});
  CHECK(list.devices.empty());
  CHECK(list.why_none.contains("libno-such-cuda.so.1"));
}

TEST_CASE("what the driver tells of a device is taken over") {
  const GpuList list = list_gpus(fake);
  REQUIRE(list.devices.size() == 1);
  const GpuDevice& device = list.devices.front();
  CHECK(device.facts.name == "Made-up GPU");
  CHECK(device.facts.arch == "sm_90");
  CHECK(device.facts.sms == 16);
  CHECK(device.facts.l2_bytes == 38);
  CHECK(device.facts.shared_bytes == 97);
  CHECK(device.facts.memory_bytes == std::int64_t{141} << 30);
  CHECK(device.uuid == "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  CHECK(device.clock_mhz == 1980);
  CHECK(device.memory_mhz == 3201);
  CHECK(list.driver_version == "580.1");
}

TEST_CASE("without NVML there are devices, but no clocks") {
  const GpuList list = list_gpus({fake.cuda, "libno-such.so.1"});
  REQUIRE(list.devices.size() == 1);
  CHECK(list.devices.front().clock_mhz == 0);
  CHECK(list.driver_version.empty());
}

TEST_CASE("a driver that does not start is not taken for no driver") {
  setenv("FAKE_DRIVER_BROKEN", "1", 1);
  const GpuList list = list_gpus(fake);
  unsetenv("FAKE_DRIVER_BROKEN");
  CHECK(list.devices.empty());
  CHECK(list.why_none.contains("CUDA_ERROR_UNKNOWN"));
}

TEST_CASE("where the driver lies is told without starting it") {
  setenv("FAKE_DRIVER_BROKEN", "1", 1);
  CHECK(gpu_driver_folder(fake) ==
        std::filesystem::path(WEFT_FAKE_DRIVER).parent_path());
  unsetenv("FAKE_DRIVER_BROKEN");
  CHECK(gpu_driver_folder({"libno-such-cuda.so.1", ""}).empty());
}

TEST_CASE("what was measured on a device is known from then on") {
  std::string folder = "/tmp/weft-gpu-test-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string old = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  const GpuList gpus = list_gpus(fake);
  Installation installation;
  installation.torch_version = "2.13.0";
  CHECK(known_gpu(installation, gpus, 0).empty());
  keep_gpu(installation, gpus, 0,
           {{"gpu", {{"copy_gbps", 4000.5}, {"name", "Made-up GPU"}}}});
  CHECK(known_gpu(installation, gpus, 0) ==
        std::map<std::string, double>{{"copy_gbps", 4000.5}});
  CHECK(known_gpu(installation, gpus, 1).empty());
  wire::Hello hello;
  hello.devices = {{gpus.devices.front().uuid, {}}, {"GPU-gone", {}}};
  CHECK(measure_devices(hello, installation, gpus).empty());
  CHECK(hello.devices[0].numbers ==
        std::map<std::string, double>{{"copy_gbps", 4000.5}});
  CHECK(hello.devices[1].numbers.empty());
  installation.torch_version = "2.14.0";  // it measures itself, too
  CHECK(known_gpu(installation, gpus, 0).empty());
  // Here it cannot: a node joins all the same.
  hello.devices.front().numbers.clear();
  const auto complaints = measure_devices(hello, installation, gpus);
  REQUIRE(complaints.size() == 1);
  CHECK(complaints.front().starts_with(gpus.devices.front().uuid + ": "));
  CHECK(hello.devices.front().numbers.empty());
  before == nullptr ? unsetenv("XDG_CACHE_HOME")
                    : setenv("XDG_CACHE_HOME", old.c_str(), 1);
  std::filesystem::remove_all(folder);
}
