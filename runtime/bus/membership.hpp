// Who may join a run, and what the broker is told of those who did.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/capabilities.hpp"
#include "messages/lease.hpp"
#include "messages/run.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/machine/installation.hpp"

namespace weft {

/// What this machine shows of itself. `devices`: whether it offers its GPUs.
wire::Hello make_hello(const Installation& installation,
                       const std::string& weft_version, bool devices);

/// The part of it that decides what the machine can do.
MachineFacts facts_of(const wire::Hello& hello);

/// Why the node may not join at all; empty: it may, whatever it can do. All
/// machines of a run have the same weft: one judge, one set of build flags.
std::string why_refused(const wire::Hello& hello, const RunStart& start);

/// The same, in a run whose roles know no capabilities: all nodes must judge.
std::string why_no_judge(const wire::Hello& hello, const RunStart& start);

/// The node's locations, itself first; a GPU only if it can do something.
std::vector<Capacities> capacities_of(const wire::Hello& hello,
                                      const RunStart& start);

/// A device's measurements without values that no device can have reached.
std::map<std::string, double> believed_numbers(const wire::Device& device);

/// All that a node can do for a run, for people: "build cpu, capture".
std::string capabilities_text(const std::vector<Capacities>& all);

}  // namespace weft
