// What work takes on a GPU, in microseconds, by its roofline: bytes over the
// memory's rate or operations over the arithmetic's, whichever takes longer,
// and launches. It prunes what cannot win; whatever else can be timed is timed.
#pragma once

#include <cstdint>

namespace weft {

struct Machine;

/// What a device reaches. The defaults are an H200's: copies and products in
/// float32 as measured on one (2026-11-20), the others from large products of
/// the library (TF32) and the datasheet (half precision, dense).
struct DeviceRates {
  double memory_gbps = 4300;  ///< 10^9 bytes a second, read plus written
  double fp32_tflops = 51;    ///< 10^12 operations a second
  double tf32_tflops = 400;
  double half_tflops = 800;
  /// From one kernel's end to the next one's begin; H200, 2026-11-24.
  double launch_us = 3;
  int multiprocessors = 132;
};

/// What the probe measured on the machine's first GPU; what it did not is the
/// default, scaled by the device's multiprocessors.
DeviceRates device_rates(const Machine& machine);

/// Instructions of an operation that takes a sequence of them (a division, an
/// exponential), by compiled kernels for sm_90, 2026-11-29; and operations of
/// an instruction, as rates are counted.
inline constexpr double kSequenceInstructions = 10;
inline constexpr double kOperationsPerInstruction = 2;

/// What one kernel, or several, have to do at least.
struct Work {
  double bytes = 0;  ///< read from and written to memory
  double fp32_operations = 0;
  double tf32_operations = 0;
  double half_operations = 0;
  int launches = 1;
};

/// What a kernel reaches of the device's rates, 1 being all.
struct Shares {
  double memory = 1;
  double arithmetic = 1;
};

double cost_us(const Work& work, const DeviceRates& rates,
               const Shares& shares = {});

/// A time that is known no better than so.
struct TimeRange {
  double least_us = 0;
  double most_us = 0;
};

/// Whether `candidate` is slower than `other` even if all goes well for it, and
/// nothing for the other. What does not is worth timing.
bool cannot_win(const TimeRange& candidate, const TimeRange& other);

/// Whether rows of so many bytes, which a block each could walk, are walked
/// sooner where all multiprocessors split each, and a second kernel reduces
/// what they leave.
bool splits_rows(double row_bytes, std::int64_t rows, const DeviceRates& rates);

}  // namespace weft
