// Which loops of a schedule are longer at another size of its graph.
#pragma once

#include <optional>
#include <set>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// The variables that nests walk whose extents are others in `other`, which is
/// the same graph's schedule at another size. Nothing where that has other
/// nests: there is no telling.
std::optional<std::set<int>> growing_variables(const Schedule& plan,
                                               const Schedule& other);

}  // namespace weft
