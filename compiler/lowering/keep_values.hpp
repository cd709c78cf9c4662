// Which values that several kernels read are computed once and kept: else each
// kernel computes them again, of all that they are made of. Decides nothing
// that a result depends on.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "compiler/graph/graph.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// The graph's kernels where the values of these calls are kept.
using ScheduleOfKept =
    std::function<Schedule(const std::set<std::string>& kept)>;

/// Names of calls (LoweringOptions::keep): one after the other as they stand in
/// the graph, each by which the kernels move so much less that they take less
/// time, launches included. Of a graph that is one kernel, none.
std::set<std::string> worth_keeping(const Graph& graph,
                                    const ScheduleOfKept& schedule_of,
                                    const DeviceRates& rates,
                                    const LoweringChoices& choices);

}  // namespace weft
