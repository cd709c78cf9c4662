// Where a run's kernels are called: on the machine's GPU when it has one and
// the run's target wants it, else on its processor.
#pragma once

#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/run.hpp"

namespace weft {

struct Graph;

/// Bytes of a device's memory, leased beside the device itself.
inline const std::string gpu_memory = "gpu_memory";

/// A location, for people: "the head", "n1", "GPU-8a5c31f0 of n1".
std::string location_name(const Location& location);

/// Where the kernels of that GPU of the head are called.
Location location_of_gpu(const Gpu& gpu);

/// Whether the run's roles say at which location something is done: those of an
/// older weft knew the head alone.
bool knows_locations(const RunStart& run);
/// RunStart::vocabulary of the first runs whose agents gain locations that join
/// later, and wait for one. Earlier runs are decided as they were.
inline constexpr int kLaterLocationsVocabulary = 7;
bool may_gain_locations(const RunStart& run);

/// Where the head can run the model: its devices, else itself. Empty: wherever
/// the broker says, in a run that knows no locations.
std::vector<Location> head_locations(const RunStart& run);

/// Of the tensors at a graph's edges: what a call of it moves at least.
std::int64_t edge_bytes(const Graph& graph);

/// What checking a graph's kernels takes of a device's memory: the tensors at
/// its edges, as many times as a verdict holds them, and what a context and its
/// modules take of it.
std::int64_t device_bytes(const Graph& graph);

/// One oracle a GPU: two would hold two contexts, and work out what a subgraph
/// should give twice.
inline constexpr int kGpuUnits = 1;

/// The resource whose leases calls of kernels need. Builds need "cpu" in any
/// case, so that they go on while the GPU is timed.
std::string device_resource(const Machine& machine);

/// Whether the target's kernels are for a GPU, there or interpreted.
bool is_for_gpu(const RunOptions& options);

/// False for a target that wants a GPU where there is none: its kernels are
/// interpreted, which proves them and says nothing about their speed.
bool can_time(const RunOptions& options, const Machine& machine);

/// Whether the module is timed, too. Each kernel has been timed before.
bool times_module(const RunOptions& options, const Machine& machine);

/// Why nothing was timed, for people.
inline constexpr const char* kNotTimed = "not timed: there is no GPU here";

}  // namespace weft
