// Made-up device classes: a run's own, what its head can do, and nodes of it
// and of others that can judge, only build or capture, or do nothing.
#pragma once

#include <vector>

#include "messages/lease.hpp"
#include "messages/run.hpp"
#include "runtime/simulation/simulated_ports.hpp"

namespace weft {

/// Gives the run one of `classes` classes, and a head that may lack PyTorch or
/// the device.
void add_classes(RunStart& start, int classes, Random& random);

/// One to six nodes of those classes, as the head would tell the broker.
std::vector<Capacities> simulated_nodes(const RunStart& start, int classes,
                                        Random& random);

}  // namespace weft
