// Who may join a run, and what the broker is told of those who did.
#pragma once

#include <string>
#include <vector>

#include "messages/lease.hpp"
#include "messages/run.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/machine/installation.hpp"

namespace weft {

/// What this machine shows of itself. `devices`: whether it offers its GPUs.
wire::Hello make_hello(const Installation& installation,
                       const std::string& weft_version, bool devices);

/// Why the node's results could not stand beside those of the run's own
/// machine, whose `own` is; empty: they can. Kernels are built and timed for
/// one kind of processor and GPU, by one weft, one PyTorch and, for GPUs, one
/// Triton and driver.
std::string why_unlike(const wire::Hello& hello, const RunStart& start,
                       const wire::Hello& own);

/// The GPUs of the node that are like the run's.
std::vector<wire::Device> devices_for(const wire::Hello& hello,
                                      const RunStart& start);

/// The node's locations, itself first.
std::vector<Capacities> capacities_of(const wire::Hello& hello,
                                      const RunStart& start);

}  // namespace weft
