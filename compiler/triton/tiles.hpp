// Tiles along loop variables of which some grow: what of them is the same at
// every size of a graph, and what kernels compute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/loops/schedule.hpp"
#include "compiler/text/count.hpp"

namespace weft {

/// How many tiles of that extent the variables' elements are.
Count tiles_of(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent);

/// Whether the last of these tiles may be short.
bool is_ragged(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent);

/// A power of two for a tile along the variables: that it holds them all, or of
/// what is symbolic, that an extent of the problem's order fills it.
std::int64_t tile_hint(const Schedule& plan,
                       const std::vector<LoopVar>& variables);

}  // namespace weft
