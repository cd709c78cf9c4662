// Capabilities of machines, and the class of a run.
#include "actors/capabilities.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

using Names = std::vector<std::string>;

MachineFacts machine(int cores = 8) {
  MachineFacts facts;
  facts.machine.name = "EPYC";
  facts.machine.vector_bytes = 64;
  facts.machine.cores = cores;
  facts.torch = "2.13.0";
  facts.triton = "3.6.0";
  facts.has_nvrtc = true;
  facts.driver = "580.65";
  facts.compiler = "g++ 12.2.0";
  return facts;
}

MachineFacts with_gpu(const std::string& name, const std::string& arch) {
  MachineFacts facts = machine();
  Gpu gpu;
  gpu.name = name;
  gpu.arch = arch;
  gpu.memory_bytes = std::int64_t{141} << 30;
  facts.machine.gpus = {gpu};
  return facts;
}

const MachineFacts h200 = with_gpu("NVIDIA H200", "sm_90");

Names on_processor(const MachineFacts& facts) {
  return machine_capabilities(facts, processor_class(machine(), "cpu"), "cpu");
}

/// Capabilities of the processor in a run on H200s.
Names beside_gpus(const MachineFacts& facts) {
  return machine_capabilities(facts, gpu_class(h200, h200.machine.gpus.front()),
                              "gpu");
}
Names on_gpu(const MachineFacts& facts) {
  return gpu_capabilities(facts, facts.machine.gpus.front(),
                          gpu_class(h200, h200.machine.gpus.front()), "gpu");
}

TEST_CASE("a processor of the class captures and judges") {
  CHECK(on_processor(machine()) == Names{"capture", "judge"});
}

TEST_CASE("a processor with other cores builds and captures") {
  CHECK(on_processor(machine(4)) == Names{"capture", "build cpu"});
}

TEST_CASE("without PyTorch a machine can only build") {
  MachineFacts facts = machine();
  facts.torch.clear();
  CHECK(on_processor(facts) == Names{"build cpu"});
}

TEST_CASE("kernels are built for the class's processor by its compiler") {
  MachineFacts facts = machine();
  SUBCASE("another processor") { facts.machine.name = "Xeon"; }
  SUBCASE("another vector width") { facts.machine.vector_bytes = 32; }
  SUBCASE("another compiler") { facts.compiler = "g++ 14.2.0"; }
  SUBCASE("no compiler") { facts.compiler.clear(); }
  CHECK(on_processor(facts) == Names{"capture"});
}

TEST_CASE("another PyTorch neither captures nor judges") {
  MachineFacts facts = machine();
  facts.torch = "2.14.0";
  CHECK(on_processor(facts) == Names{"build cpu"});
}

TEST_CASE("a machine does no more than its user lets it") {
  MachineFacts facts = machine();
  facts.only = {"build"};
  CHECK(on_processor(facts) == Names{"build cpu"});
  facts.only = {"judge"};
  CHECK(on_processor(facts) == Names{"judge"});
}

TEST_CASE("without a GPU a machine builds for GPUs") {
  CHECK(beside_gpus(machine()) == Names{"build cuda", "build triton"});
  MachineFacts facts = machine();
  SUBCASE("another Triton") { facts.triton = "3.7.0"; }
  SUBCASE("another PyTorch") { facts.torch = "2.14.0"; }
  CHECK(beside_gpus(facts) == Names{"build cuda"});
}

TEST_CASE("a GPU of the class captures and judges, and its cores are its own") {
  CHECK(on_gpu(h200) == Names{"capture", "judge"});
  CHECK(beside_gpus(h200).empty());
}

TEST_CASE("a GPU of another class captures, and its machine builds") {
  MachineFacts facts = h200;
  SUBCASE("another model") { facts.machine.gpus.front().name = "NVIDIA H100"; }
  SUBCASE("less memory") { facts.machine.gpus.front().memory_bytes /= 2; }
  SUBCASE("another driver") { facts.driver = "550.54"; }
  CHECK(on_gpu(facts) == Names{"capture"});
  CHECK(beside_gpus(facts) == Names{"build cuda", "build triton"});
}

TEST_CASE("a GPU is nothing to a run on processors") {
  CHECK(gpu_capabilities(h200, h200.machine.gpus.front(),
                         processor_class(machine(), "cpu"), "cpu")
            .empty());
}

TEST_CASE("classes that differ have names that differ") {
  DeviceClass cpu = processor_class(machine(), "cpu");
  DeviceClass gpu = gpu_class(h200, h200.machine.gpus.front());
  CHECK(class_name(cpu) ==
        "EPYC, 8 cores, 512-bit vectors, g++ 12.2.0, PyTorch 2.13.0");
  CHECK(class_name(gpu) ==
        "NVIDIA H200, sm_90, 144384 MiB, driver 580.65, PyTorch 2.13.0, "
        "Triton 3.6.0");
  CHECK(class_name({}) == "");
}

TEST_CASE("a run has the class with most devices, or the one asked for") {
  const MachineFacts h100 = with_gpu("NVIDIA H100", "sm_90");
  const auto classes = timing_classes({h200, h100, h100, machine()}, "auto");
  REQUIRE(classes.size() == 2);  // with GPUs there, processors are none
  const TimingClass* most = choose_class(classes, "");
  REQUIRE(most != nullptr);
  CHECK(most->device_class.device == "NVIDIA H100");
  CHECK(most->devices == 2);
  CHECK(most->target == "gpu");
  const TimingClass* asked = choose_class(classes, "h200");
  REQUIRE(asked != nullptr);
  CHECK(asked->device_class.device == "NVIDIA H200");
  CHECK(choose_class(classes, "b200") == nullptr);

  // A run of a bench has the very class of the bench: one without Triton has a
  // name that begins one's with Triton.
  const std::string name = class_name(asked->device_class);
  CHECK(choose_class(classes, name, true) == asked);
  CHECK(choose_class(classes, name.substr(0, name.size() - 3)) == asked);
  CHECK(choose_class(classes, name.substr(0, name.size() - 3), true) ==
        nullptr);
}

TEST_CASE("machines that cannot judge give no class") {
  MachineFacts builds = machine();
  builds.torch.clear();
  CHECK(timing_classes({builds}, "cpu").empty());
  CHECK(timing_classes({machine()}, "cuda").empty());  // no GPU
  const auto classes =
      timing_classes({machine(), machine(4), machine(4)}, "auto");
  REQUIRE(choose_class(classes, "") != nullptr);
  CHECK(choose_class(classes, "")->device_class.cores == 4);
  CHECK(choose_class(classes, "")->target == "cpu");
}

TEST_CASE("what the head cannot do is asked of whoever can, for a time") {
  RunStart run;
  run.vocabulary = vocabulary_version;
  run.node_wait_ms = 7;
  LeaseTerms terms;
  SUBCASE("a run without a class has the head do all") {
    place(terms, run, capability::judge);
    CHECK(terms.locations == std::vector<Location>{""});
    CHECK(terms.capability == "");
  }
  SUBCASE("a head that judges") {
    run.device_class = processor_class(machine(), "cpu");
    run.head_can = {capability::judge};
    place(terms, run, capability::judge);
    CHECK(terms.locations == std::vector<Location>{""});
  }
  SUBCASE("a head that does not") {
    run.device_class = processor_class(machine(), "cpu");
    place(terms, run, capability::judge);
    CHECK(terms.locations.empty());
    CHECK(terms.capability == "judge");
    CHECK(terms.wait_ms == 7);
  }
}

}  // namespace
}  // namespace weft
