#include "runtime/machine/device_choice.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

GpuList list_of(const std::vector<std::string>& uuids) {
  GpuList list;
  for (const std::string& uuid : uuids) {
    GpuDevice& device = list.devices.emplace_back();
    device.facts.name = "a GPU";
    device.uuid = uuid;
  }
  return list;
}

std::vector<std::string> chosen(const std::vector<std::string>& wanted) {
  const auto gpus = choose_gpus(wanted, 1, list_of({"GPU-aa", "GPU-ab"}));
  REQUIRE(gpus.has_value());
  std::vector<std::string> uuids;
  for (const Gpu& gpu : *gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

using Uuids = std::vector<std::string>;

TEST_CASE("a run has all GPUs, or those that are named, or one") {
  CHECK(chosen({"all"}) == Uuids{"GPU-aa", "GPU-ab"});
  CHECK(chosen({"1", "0"}) == Uuids{"GPU-ab", "GPU-aa"});
  CHECK(chosen({"GPU-ab"}) == Uuids{"GPU-ab"});
  CHECK(chosen({"1", "GPU-ab", "all"}) == Uuids{"GPU-ab", "GPU-aa"});
  CHECK(chosen({}) == Uuids{"GPU-ab"});
}

TEST_CASE("a GPU that is not there is refused, and what there is told") {
  const GpuList list = list_of({"GPU-aa", "GPU-ab"});
  for (const char* name : {"2", "GPU-b", "", "-1", "1x"}) {
    CAPTURE(name);
    const auto gpus = choose_gpus({name}, 0, list);
    REQUIRE(!gpus.has_value());
    CHECK(gpus.error().code == ErrorCode::wrong_input);
    CHECK(gpus.error().message.contains("GPUs 0 to 1"));
  }
  CHECK(choose_gpus({"GPU-a"}, 0, list).error().message.contains("write more"));
}

TEST_CASE("without any GPU, one that nobody named is no error") {
  CHECK(choose_gpus({}, 0, {})->empty());
  CHECK(choose_gpus({"all"}, 0, {})->empty());
}

TEST_CASE("a device's number is the driver's of today") {
  Gpu gpu;
  gpu.uuid = "GPU-ab";
  CHECK(cuda_name(gpu, 7, list_of({"GPU-ab", "GPU-aa"})) == "cuda:0");
  CHECK(cuda_name(gpu, 7, list_of({"GPU-aa", "GPU-ab"})) == "cuda:1");
  CHECK(cuda_name(gpu, 7, list_of({"GPU-aa"})).error().code ==
        ErrorCode::missing);
  CHECK(cuda_name(Gpu{}, 7, {}) == "cuda:7");
}

}  // namespace
}  // namespace weft
