// A bar a stage, as a person at a terminal sees it: what is done of it, how
// long it took, and where earlier runs tell it, about how long the run goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/progress/earlier_runs.hpp"
#include "runtime/progress/stages.hpp"

namespace weft {

/// Of the whole run, at that time by the journal's clock. nullopt: earlier
/// runs do not tell it, or this one takes longer than they did.
std::optional<std::int64_t> left_us(const Stages& stages,
                                    const std::vector<EarlierRun>& runs,
                                    std::int64_t now_us);

/// A line a stage, and one of the time left if that is known; none before the
/// run begins, or once it is over. 78 columns at most, in ASCII.
std::vector<std::string> bars(const Stages& stages,
                              const std::vector<EarlierRun>& runs,
                              std::int64_t now_us);

}  // namespace weft
