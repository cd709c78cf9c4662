// Which loops of a schedule are longer at another size of its graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// The variables that nests walk whose extents are others in `other`, which is
/// the same graph's schedule at another size: each with its extent there.
/// Nothing where that has other nests: there is no telling.
std::optional<std::map<int, std::int64_t>> growing_variables(
    const Schedule& plan, const Schedule& other);

}  // namespace weft
