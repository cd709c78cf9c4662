// Which loops of a schedule are longer at another size of its graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// The variables that nests walk whose extents are others in `other`, which is
/// the same graph's schedule at another size: each with its extent there.
/// Nothing where that has other nests: there is no telling.
std::optional<std::map<int, std::int64_t>> growing_variables(
    const Schedule& plan, const Schedule& other);

/// Whether any of the variables is longer at another size.
bool grows(const Schedule& plan, const std::vector<LoopVar>& variables);

/// The elements of a domain, by which loops over it are laid out: of what grows
/// those at a size of the problem's order, the same whatever size is printed.
std::int64_t usual_extent(const Schedule& plan,
                          const std::vector<LoopVar>& variables);

}  // namespace weft
