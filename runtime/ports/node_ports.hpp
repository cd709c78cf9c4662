// The real ports of a node for one run: capture, build and verification, as far
// as the node has these capabilities. Data of the run arrive as blobs.
#pragma once

#include <string>
#include <vector>

#include "messages/run.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/bus/node.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/sandbox/gpu.hpp"
#include "runtime/store/run_directory.hpp"

namespace weft {

/// `hello` is what the node showed of itself. Its GPUs of the run's class have
/// a verify port each.
NodePorts make_node_ports(const RunDirectory& folder, const Scratch& scratch,
                          const Installation& installation,
                          const wire::Hello& hello, Blobs& blobs,
                          const RunStart& start);

/// What a probe measured on each of the GPUs that it shows, or measures now,
/// some seconds each; seeds for them are chosen by it. Returns why some could
/// not be: then those of the run's own device stand for them.
std::vector<std::string> measure_devices(wire::Hello& hello,
                                         const Installation& installation,
                                         const GpuList& gpus);

/// A build's files and a small model's tensors.
inline constexpr std::int64_t kNodeSpaceBytes = std::int64_t{64} << 20;

/// As NodeOptions::why_unfit: where the folder or the scratch does not take so
/// many bytes, as a build or a candidate writes.
std::string no_space_reason(const RunDirectory& folder, const Scratch& scratch,
                            std::int64_t bytes = kNodeSpaceBytes);

}  // namespace weft
