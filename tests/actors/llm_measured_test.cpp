#include <doctest/doctest.h>

#include "actors/llm/measured.hpp"

namespace weft {
namespace {

/// A kernel of so many microseconds where moving its bytes takes 10.
SeedResult timed(double us, BuiltCode built = {}) {
  SeedResult result;
  result.verdict.correct = true;
  result.timed = true;
  result.timing.candidate = {us, us, us, 9};
  result.timing.eager = {40, 40, 40, 9};
  result.timing.bytes_floor = 1'000'000;
  result.timing.floor_us = 10;
  result.timing.over_eager = {40 / us, 39 / us, 41 / us};
  result.timing.built = std::move(built);
  return result;
}

std::string bottleneck(const SeedResult& result, bool multiplies = false) {
  return bottleneck_of(result, {multiplies, true}, {}).text;
}

const BuiltCode kSpilling = {{"rows",
                              {{"registers", 255},
                               {"local_bytes", 96},
                               {"threads", 128},
                               {"blocks_by_threads", 16},
                               {"blocks_by_registers", 2},
                               {"blocks", 2},
                               {"occupancy_percent", 13}}}};
const BuiltCode kCrowded = {{"rows",
                             {{"registers", 40},
                              {"local_bytes", 0},
                              {"shared_bytes", 100'000},
                              {"threads", 128},
                              {"blocks_by_threads", 16},
                              {"blocks_by_registers", 12},
                              {"blocks_by_shared_memory", 2},
                              {"blocks", 2},
                              {"occupancy_percent", 13}}}};

TEST_CASE("times are told with the bytes, their rate and the share of a copy") {
  const std::string text = bottleneck(timed(20));
  CHECK(text.starts_with(
      "It runs at 2x eager (95 % interval 1.95 to 2.05); 20 us where eager "
      "took "
      "40 us in the same rounds. It moves 50 GB/s of the bytes that must move, "
      "50 % of a copy. Memory traffic limits it.\n"));
}

TEST_CASE("spills are the bottleneck of a slow kernel, and only of one") {
  const std::string slow = bottleneck(timed(20, kSpilling));
  CHECK(slow.contains("Registers are what limits it: `rows` keeps 96 bytes"));
  CHECK_FALSE(slow.contains("Memory traffic limits it"));
  const std::string fast = bottleneck(timed(12, kSpilling));
  CHECK(fast.contains("Memory traffic limits it"));
  CHECK_FALSE(fast.contains("Registers are what limits it"));
  // As figures they are there all the same.
  CHECK(
      fast.contains("- `rows`: 255 registers a thread, 96 bytes of local "
                    "memory a thread, 128 threads a block, occupancy 13 % "
                    "(limited by registers)\n"));
}

TEST_CASE("low occupancy is named with what allows no more") {
  const auto found = bottleneck_of(timed(20, kCrowded), {}, {});
  CHECK(
      found.text.contains("Occupancy is what limits it: of `rows` 2 blocks "
                          "are on a multiprocessor at once, 13 % of its "
                          "threads, limited by shared memory."));
  CHECK(found.method.contains("shared memory"));
  CHECK_FALSE(bottleneck(timed(12, kCrowded)).contains("Occupancy is what"));
  BuiltCode full = kCrowded;
  full["rows"]["occupancy_percent"] = 75;
  CHECK_FALSE(bottleneck(timed(20, full)).contains("Occupancy is what"));
}

TEST_CASE("products need few warps, and moving bytes is no measure of them") {
  auto product = timed(35, kCrowded);
  CHECK_FALSE(bottleneck(product, true).contains("Occupancy is what"));
  product.timing.built = kSpilling;
  CHECK_FALSE(bottleneck(product, true).contains("Registers are what"));
  product.timing.candidate.median_us = 60;  // eager takes 40
  CHECK(bottleneck(product, true).contains("Registers are what limits it"));
}

TEST_CASE("of a kernel that tunes itself all builds must be so") {
  BuiltCode built = kSpilling;
  built["rows (2)"] = {{"registers", 64}, {"local_bytes", 0}};
  CHECK_FALSE(bottleneck(timed(20, built)).contains("Registers are what"));
  built["rows (2)"]["local_bytes"] = 8;
  CHECK(bottleneck(timed(20, built)).contains("Registers are what"));
  built["rows (2)"]["local_bytes"] = 0;
  built["other"] = {{"local_bytes", 16}};
  CHECK(bottleneck(timed(20, built)).contains("`other` keeps 16 bytes"));
}

TEST_CASE("a processor's kernel that is slower than eager is looked at") {
  auto result = timed(80, {{"run",
                            {{"vector_bits", 0},
                             {"vector_instructions", 0},
                             {"scalar_instructions", 7},
                             {"vector_spills", 0}}}});
  result.timing.floor_us = 0;  // of a processor it is not known
  CHECK(bottleneck(result).contains("It is not vectorised"));
  result.timing.built["run"] = {{"vector_bits", 256},
                                {"vector_instructions", 40},
                                {"scalar_instructions", 2},
                                {"vector_spills", 12}};
  CHECK(bottleneck(result).contains("stores 12 vectors on the stack"));
  result.timing.built["run"]["vector_spills"] = 1;
  CHECK(
      bottleneck(result).contains("PyTorch needs less time for the same work"));
  result.timing.candidate.median_us = 20;
  result.timing.built["run"]["vector_spills"] = 40;
  CHECK(bottleneck(result).contains("It is not known"));
}

TEST_CASE("a method is not asked for again while there is another") {
  const auto first = bottleneck_of(timed(20), {}, {});
  SeedResult tried;
  tried.seed.method = first.method;
  const auto second = bottleneck_of(timed(20), {}, {tried});
  CHECK(second.method != first.method);
  std::vector<SeedResult> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back().seed.method = bottleneck_of(timed(20), {}, all).method;
  }
  CHECK(bottleneck_of(timed(20), {}, all).method == first.method);
}

TEST_CASE("products get advice for products") {
  SeedResult product = timed(60);
  product.timing.floor_us = 0;
  const auto found = bottleneck_of(product, {.multiplies = true}, {});
  CHECK(found.method.contains("accumulators"));
  CHECK_FALSE(found.text.contains("GB/s"));
  // A processor's roofline stands for the floor that a device measures.
  SeedResult streaming = timed(12);
  streaming.timing.floor_us = 0;
  const auto near = bottleneck_of(streaming, {.floor_us = 10}, {});
  CHECK(near.text.contains("83 % of a copy"));
  CHECK(near.text.contains("Memory traffic limits it."));
}

TEST_CASE(
    "arithmetic bounds a kernel whose operations take longer than memory") {
  const SeedResult kernel = timed(100);
  const auto found =
      bottleneck_of(kernel, {.floor_us = 50, .computes = true}, {});
  CHECK(found.text.contains("Its arithmetic alone takes 50 % of this time."));
  CHECK(found.text.contains("Arithmetic limits it."));
  CHECK_FALSE(found.text.contains("GB/s"));
  CHECK(found.method.contains("cheaper instructions"));
}

TEST_CASE("few operations for each byte are not said to limit a kernel") {
  SeedResult kernel = timed(50);
  kernel.timing.floor_us = 0;
  const auto heavy = bottleneck_of(kernel, {}, {});
  CHECK(heavy.text.contains("limit it, not memory."));
  const auto light = bottleneck_of(kernel, {.is_light = true}, {});
  CHECK(light.text.contains("memory or caches limit it"));
  CHECK(light.method.contains("each byte once"));
}

TEST_CASE("scalar code is named even if it is faster than eager") {
  auto result = timed(20, {{"run",
                            {{"vector_bits", 0},
                             {"vector_instructions", 0},
                             {"scalar_instructions", 8},
                             {"vector_spills", 0}}}});
  result.timing.floor_us = 0;
  CHECK(bottleneck(result).contains("It is not vectorised"));
}

TEST_CASE("a gain is said in whole percents") {
  CHECK(gain_text(1.124) == "12 % faster than");
  CHECK(gain_text(0.8) == "25 % slower than");
  CHECK(gain_text(1.001) == "as fast as");
}

TEST_CASE("no more than ten figures are shown") {
  BuiltCode many;
  for (int i = 0; i < 3; ++i) {
    many["k" + std::to_string(i)] = {{"registers", 32},
                                     {"local_bytes", 0},
                                     {"threads", 128},
                                     {"shared_bytes", 0}};
  }
  const std::string text = bottleneck(timed(12, many));
  CHECK(text.contains("`k1`"));
  CHECK_FALSE(text.contains("`k2`"));
  CHECK(text.contains("- and 1 more\n"));
}

TEST_CASE("no more kernels are told of than help") {
  BuiltCode many;
  for (int i = 0; i < 8; ++i) {
    many["k" + std::to_string(i)] = {{"registers", 32}};
  }
  const std::string text = bottleneck(timed(20, many));
  CHECK(text.contains("`k3`"));
  CHECK_FALSE(text.contains("`k4`"));
  CHECK(text.contains("- and 4 more\n"));
}

}  // namespace
}  // namespace weft
