// Where a run's kernels are called: on the machine's GPU when it has one and
// the run's target wants it, else on its processor.
#pragma once

#include <string>

#include "messages/run.hpp"

namespace weft {

/// Checks that may share one GPU: while one compares, another computes. Timing
/// takes all of them.
inline constexpr int gpu_units = 2;

/// The resource whose leases calls of kernels need. Builds need "cpu" in any
/// case, so that they go on while the GPU is timed.
std::string device_resource(const Machine& machine);

/// False for a target that wants a GPU where there is none: its kernels are
/// interpreted, which proves them and says nothing about their speed.
bool can_time(const RunOptions& options, const Machine& machine);

/// Why nothing was timed, for people.
inline constexpr const char* not_timed = "not timed: there is no GPU here";

}  // namespace weft
