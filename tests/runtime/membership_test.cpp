// Rules for joining a run, and the messages to the broker.
#include "runtime/bus/membership.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "actors/device.hpp"

namespace weft {
namespace {

Gpu gpu(const std::string& uuid) {
  Gpu gpu;
  gpu.name = "NVIDIA H200";
  gpu.arch = "sm_90";
  gpu.memory_bytes = std::int64_t{141} << 30;
  gpu.uuid = uuid;
  return gpu;
}

/// A node that is of the run's class, before a test changes it.
struct Pair {
  RunStart start;
  wire::Hello hello;

  explicit Pair(const std::string& target, bool has_gpu = false) {
    start.weft_version = hello.weft = "1";
    start.options.target = target;
    hello.name = "n1";
    hello.torch = "2.13.0";
    hello.triton = "3.6.0";
    hello.nvrtc = "libnvrtc.so.13 13.5";
    hello.driver = "580.65";
    hello.compiler = "g++ 12.2.0";
    hello.slots = {{"cpu", 8}};
    start.machine.name = hello.machine.name = "EPYC";
    start.machine.cores = hello.machine.cores = 8;
    if (has_gpu) {
      start.machine.gpus = {gpu("")};
      hello.devices = {{"GPU-b", gpu("GPU-b")}};
    }
    const MachineFacts facts = facts_of(hello);
    start.device_class =
        has_gpu ? gpu_class(facts, gpu("")) : processor_class(facts, target);
  }
  std::vector<Capacities> all() const { return capacities_of(hello, start); }
};

TEST_CASE("a node of another weft is refused, and told what to do") {
  Pair pair("cpu");
  CHECK(why_refused(pair.hello, pair.start) == "");
  pair.hello.weft = "2";
  CHECK(why_refused(pair.hello, pair.start) ==
        "its weft is 2, the run's 1: install the same on both");
}

TEST_CASE("a node of another class is accepted, and says what it can do") {
  Pair pair("cpu");
  CHECK(capabilities_text(pair.all()) == "capture, judge");
  pair.hello.machine.cores = 4;
  CHECK(why_refused(pair.hello, pair.start) == "");
  CHECK(capabilities_text(pair.all()) == "build cpu, capture");
  CHECK(pair.all().front().device_class.contains("4 cores"));
  pair.hello.torch.clear();
  CHECK(capabilities_text(pair.all()) == "build cpu");
  pair.hello.compiler.clear();
  CHECK(capabilities_text(pair.all()) == "nothing for this run");
}

TEST_CASE("an earlier weft's run takes no node that cannot judge") {
  Pair pair("cpu");
  CHECK(why_no_judge(pair.hello, pair.start) == "");
  pair.hello.machine.cores = 4;
  CHECK(why_no_judge(pair.hello, pair.start).contains("begun by an earlier"));
}

TEST_CASE("devices of another class are offered for capture alone") {
  Pair pair("cuda", true);
  Gpu smaller = gpu("GPU-c");
  smaller.memory_bytes /= 2;
  pair.hello.devices.push_back({"GPU-c", smaller});
  const auto all = pair.all();
  REQUIRE(all.size() == 3);
  CHECK(all[0].location == "n1");
  CHECK(all[0].capabilities.empty());  // its cores build for its own GPU
  CHECK(all[1].location == "n1/GPU-b");
  CHECK(has_capability(all[1].capabilities, capability::judge));
  CHECK(all[2].location == "n1/GPU-c");
  CHECK(all[2].capabilities == std::vector<std::string>{"capture"});
}

TEST_CASE("a node without a GPU builds for GPUs") {
  Pair pair("cuda", true);
  pair.hello.devices.clear();
  pair.hello.driver.clear();
  REQUIRE(pair.all().size() == 1);
  CHECK(capabilities_text(pair.all()) == "build cuda");
}

TEST_CASE("what was measured on a device goes with it, without nonsense") {
  Pair pair("cuda", true);
  pair.hello.devices.front().numbers = {{"copy_gbps", 4'000},
                                        {"fp32_tflops", -1},
                                        {"half_tflops", std::nan("")},
                                        {"clusters_of_8", HUGE_VAL}};
  const auto all = pair.all();
  REQUIRE(all.size() == 2);
  CHECK(all[0].gpu_numbers.empty());
  CHECK(all[1].gpu_numbers ==
        std::map<std::string, double>{{"copy_gbps", 4'000}});
}

}  // namespace
}  // namespace weft
