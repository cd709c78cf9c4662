// Chooses values that several kernels read and that are materialized: computed
// once and stored. Otherwise each kernel computes them again from all their
// operands. Affects speed only.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "compiler/graph/graph.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// The graph's schedule with the values of these calls materialized.
using ScheduleFor =
    std::function<Schedule(const std::set<std::string>& materialized)>;

/// Names of calls (LoweringOptions::keep), tried one after the other in graph
/// order. A call is chosen if materializing it reduces the kernels' time for
/// memory traffic and launches. None for a graph that is one kernel.
std::set<std::string> worth_keeping(const Graph& graph,
                                    const ScheduleFor& schedule_of,
                                    const DeviceRates& rates,
                                    const LoweringChoices& choices);

}  // namespace weft
