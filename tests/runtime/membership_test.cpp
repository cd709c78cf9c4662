// Who may join a run.
#include "runtime/bus/membership.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace weft {
namespace {

struct Pair {
  RunStart start;
  wire::Hello own;
  wire::Hello hello;

  explicit Pair(const std::string& target) {
    start.weft_version = own.weft = "1";
    start.options.target = target;
    own.torch = "2.13.0";
    own.triton = "3.6.0";
    own.nvrtc = "libnvrtc.so.13 13.5";
    own.driver = "580.65";
    start.machine.name = own.machine.name = "EPYC";
    start.machine.cores = own.machine.cores = 8;
    hello = own;
  }
  std::string why() const { return why_unlike(hello, start, own); }
};

Gpu gpu(const std::string& uuid) {
  Gpu gpu;
  gpu.name = "NVIDIA H200";
  gpu.arch = "sm_90";
  gpu.memory_bytes = std::int64_t{141} << 30;
  gpu.uuid = uuid;
  return gpu;
}

TEST_CASE("a node of the same versions may join") {
  CHECK(Pair("cpu").why() == "");
  CHECK(Pair("triton").why() == "");
}

TEST_CASE("a node of other versions is told which") {
  Pair pair("cpu");
  SUBCASE("weft") {
    pair.hello.weft = "2";
    CHECK(pair.why() == "its weft is 2, the run's 1: install the same on both");
  }
  SUBCASE("PyTorch") {
    pair.hello.torch = "2.14.0";
    CHECK(pair.why() == "its PyTorch is 2.14.0, the run's 2.13.0");
  }
  SUBCASE("the processor") {
    pair.hello.machine.name = "Xeon";
    CHECK(pair.why() == "its processor is Xeon, the run's EPYC");
  }
  SUBCASE("its cores") {
    pair.hello.machine.cores = 4;
    CHECK(pair.why() == "its number of cores is 4, the run's 8");
  }
}

TEST_CASE("what builds for GPUs must be the same for kernels on GPUs alone") {
  for (const bool is_triton : {true, false}) {
    Pair cpu("cpu"), gpu("triton");
    for (Pair* pair : {&cpu, &gpu}) {
      (is_triton ? pair->hello.triton : pair->hello.nvrtc) = "";
    }
    CHECK(cpu.why() == "");
    CHECK(gpu.why() == (is_triton
                            ? "its Triton is none, the run's 3.6.0"
                            : "it has no NVRTC, and the run's machine has"));
  }
}

TEST_CASE("a driver matters where there are GPUs to be timed on") {
  Pair pair("cuda");
  pair.hello.driver = "550.54";
  CHECK(pair.why() == "");
  pair.start.machine.gpus = {gpu("GPU-a")};
  CHECK(pair.why() == "");  // it has none, and only builds
  pair.hello.devices = {{"GPU-b", gpu("GPU-b")}};
  CHECK(pair.why() == "its GPU driver is 550.54, the run's 580.65");
}

TEST_CASE("devices of another kind than the run's are not offered") {
  Pair pair("cuda");
  pair.start.machine.gpus = {gpu("GPU-a")};
  Gpu smaller = gpu("GPU-c");
  smaller.memory_bytes /= 2;
  pair.hello.name = "n1";
  pair.hello.slots = {{"cpu", 8}};
  pair.hello.devices = {{"GPU-b", gpu("GPU-b")}, {"GPU-c", smaller}};
  const auto all = capacities_of(pair.hello, pair.start);
  REQUIRE(all.size() == 2);
  CHECK(all[0].location == "n1");
  CHECK(all[1].location == "n1/GPU-b");
}

TEST_CASE("what was measured on a device goes with it, without nonsense") {
  Pair pair("cuda");
  pair.start.machine.gpus = {gpu("GPU-a")};
  pair.hello.name = "n1";
  pair.hello.devices = {{"GPU-b",
                         gpu("GPU-b"),
                         {{"copy_gbps", 4'000},
                          {"fp32_tflops", -1},
                          {"half_tflops", std::nan("")},
                          {"clusters_of_8", HUGE_VAL}}}};
  const auto all = capacities_of(pair.hello, pair.start);
  REQUIRE(all.size() == 2);
  CHECK(all[0].gpu_numbers.empty());
  CHECK(all[1].gpu_numbers ==
        std::map<std::string, double>{{"copy_gbps", 4'000}});
}

}  // namespace
}  // namespace weft
