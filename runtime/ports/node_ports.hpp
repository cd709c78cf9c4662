// The real ports of a node for one run: what it builds and verifies. What it
// needs of the run comes as blobs.
#pragma once

#include "messages/run.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/bus/node.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/store/run_directory.hpp"

namespace weft {

/// `hello` is what the node showed of itself. Its GPUs that are like the run's
/// have a verify port each.
NodePorts make_node_ports(const RunDirectory& folder, const Scratch& scratch,
                          const Installation& installation,
                          const wire::Hello& hello, Blobs& blobs,
                          const RunStart& start);

}  // namespace weft
