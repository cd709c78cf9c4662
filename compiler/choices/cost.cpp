#include "compiler/choices/cost.hpp"

#include <algorithm>

#include "messages/run.hpp"

namespace weft {
namespace {

/// Of 10^9 a second, in a microsecond.
constexpr double kGigaPerUs = 1e3;
/// Of 10^12 a second, in a microsecond.
constexpr double kTeraPerUs = 1e6;

}  // namespace

DeviceRates device_rates(const Machine& machine) {
  DeviceRates rates;
  if (machine.gpus.empty() || machine.gpus.front().sms <= 0) return rates;
  const int sms = machine.gpus.front().sms;
  const double scale = static_cast<double>(sms) / rates.multiprocessors;
  const auto settle = [&](double& rate, const char* name) {
    const auto probed = machine.gpu_numbers.find(name);
    const bool is_probed =
        probed != machine.gpu_numbers.end() && probed->second > 0;
    rate = is_probed ? probed->second : rate * scale;
  };
  settle(rates.memory_gbps, "copy_gbps");
  settle(rates.fp32_tflops, "fp32_tflops");
  settle(rates.tf32_tflops, "tf32_tflops");
  settle(rates.half_tflops, "half_tflops");
  rates.multiprocessors = sms;
  return rates;
}

double cost_us(const Work& work, const DeviceRates& rates,
               const Shares& shares) {
  const double memory_us =
      work.bytes / (rates.memory_gbps * kGigaPerUs * shares.memory);
  const double arithmetic_us = (work.fp32_operations / rates.fp32_tflops +
                                work.tf32_operations / rates.tf32_tflops +
                                work.half_operations / rates.half_tflops) /
                               (kTeraPerUs * shares.arithmetic);
  return std::max(memory_us, arithmetic_us) + work.launches * rates.launch_us;
}

bool cannot_win(const TimeRange& candidate, const TimeRange& other) {
  return candidate.least_us > other.most_us;
}

// A block reaches what one multiprocessor can, and no multiprocessor has two
// rows before each has one.
bool splits_rows(double row_bytes, std::int64_t rows,
                 const DeviceRates& rates) {
  const double busy =
      static_cast<double>(std::min<std::int64_t>(rows, rates.multiprocessors));
  const double bytes = row_bytes * static_cast<double>(rows);
  const double whole_us = cost_us({.bytes = bytes}, rates,
                                  {.memory = busy / rates.multiprocessors});
  return cost_us({.bytes = bytes, .launches = 2}, rates) < whole_us;
}

}  // namespace weft
