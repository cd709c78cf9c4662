// Loops whose extent depends on a symbolic size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Loop variables whose extents differ in `other`, the schedule of the same
/// graph at another size, each with its extent there. Empty if the two
/// schedules have different nests.
std::optional<std::map<int, std::int64_t>> find_symbolic_loops(
    const Schedule& plan, const Schedule& other);

/// True if the extent of any of the variables is symbolic.
bool is_symbolic(const Schedule& plan, const std::vector<LoopVar>& variables);

/// Number of elements of a domain, by which loops over it are laid out.
/// Symbolic extents count with their size at hint_graph(), whatever size is
/// printed.
std::int64_t size_hint(const Schedule& plan,
                       const std::vector<LoopVar>& variables);

}  // namespace weft
