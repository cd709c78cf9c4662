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

/// As NodeOptions::why_unfit: where the node's folder or its scratch does not
/// take what a build or a candidate writes.
std::string why_without_room(const RunDirectory& folder,
                             const Scratch& scratch);

}  // namespace weft
