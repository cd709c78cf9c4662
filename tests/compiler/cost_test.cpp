#include "compiler/choices/cost.hpp"

#include <doctest/doctest.h>

#include "messages/run.hpp"

using namespace weft;

TEST_CASE("memory or arithmetic takes the time, whichever is slower") {
  const DeviceRates rates;
  const double copy = cost_us({.bytes = 1e9}, rates);
  CHECK(cost_us({.bytes = 2e9}, rates) > 1.9 * copy);
  CHECK(cost_us({.bytes = 1e9, .tf32_operations = 1e9}, rates) == copy);
  CHECK(cost_us({.bytes = 1e9, .tf32_operations = 1e13}, rates) > 10 * copy);
}

TEST_CASE(
    "a launch costs, and a kernel that reaches half takes twice as long") {
  const DeviceRates rates;
  CHECK(cost_us({}, rates) == rates.launch_us);
  const Work work{.bytes = 1e9, .launches = 0};
  CHECK(cost_us(work, rates, {.memory = 0.5}) ==
        doctest::Approx(2 * cost_us(work, rates)));
}

TEST_CASE("a device with half the multiprocessors is half as fast") {
  const DeviceRates whole = device_rates({});
  Machine machine;
  machine.gpus.emplace_back().sms = whole.multiprocessors / 2;
  const DeviceRates half = device_rates(machine);
  const Work work{.bytes = 1e9, .launches = 0};
  CHECK(cost_us(work, half) == doctest::Approx(2 * cost_us(work, whole)));
  CHECK(half.launch_us == whole.launch_us);
}

TEST_CASE("what a probe measured stands for what is worked out") {
  Machine machine;
  machine.gpus.emplace_back().sms = 132;
  machine.gpu_numbers = {{"copy_gbps", 3000}, {"half_tflops", 0}};
  const DeviceRates rates = device_rates(machine);
  CHECK(rates.memory_gbps == 3000);
  CHECK(rates.half_tflops == DeviceRates{}.half_tflops);
  CHECK(rates.fp32_tflops == DeviceRates{}.fp32_tflops);
}

TEST_CASE("only what is slower at its best cannot win") {
  CHECK(cannot_win({3, 4}, {1, 2}));
  CHECK_FALSE(cannot_win({1, 4}, {2, 3}));
  CHECK_FALSE(cannot_win({1, 2}, {3, 4}));
}

TEST_CASE("long rows are split, where they are few") {
  const DeviceRates rates;
  CHECK(splits_rows(1 << 20, 1, rates));
  CHECK(splits_rows(1 << 20, 16, rates));
  CHECK_FALSE(splits_rows(1 << 14, 1, rates));
  CHECK_FALSE(splits_rows(1 << 20, rates.multiprocessors, rates));
}

TEST_CASE("dear launches keep rows whole") {
  DeviceRates rates;
  rates.launch_us = 1000;
  CHECK_FALSE(splits_rows(1 << 20, 1, rates));
}
