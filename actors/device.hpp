// Where a run's kernels are called: on the machine's GPU when it has one and
// the run's target wants it, else on its processor.
#pragma once

#include <string>

#include "messages/run.hpp"

namespace weft {

/// One oracle a GPU: two would hold two contexts, and work out what a subgraph
/// should give twice.
inline constexpr int gpu_units = 1;

/// The resource whose leases calls of kernels need. Builds need "cpu" in any
/// case, so that they go on while the GPU is timed.
std::string device_resource(const Machine& machine);

/// False for a target that wants a GPU where there is none: its kernels are
/// interpreted, which proves them and says nothing about their speed.
bool can_time(const RunOptions& options, const Machine& machine);

/// Why nothing was timed, for people.
inline constexpr const char* not_timed = "not timed: there is no GPU here";

}  // namespace weft
