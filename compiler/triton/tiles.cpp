#include "compiler/triton/tiles.hpp"

#include <bit>

#include "compiler/loops/integers.hpp"
#include "compiler/loops/symbolic_loops.hpp"

namespace weft {

Count tiles_of(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent) {
  return parts_of(extent_of(variables), extent, is_symbolic(plan, variables),
                  "//");
}

// What is symbolic is a multiple of what does not, and may be of nothing else.
bool is_ragged(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent) {
  std::int64_t known = 1;
  for (const LoopVar& v : variables) {
    if (!plan.symbolic_loops.contains(v.id)) known *= v.extent;
  }
  return known % extent != 0;
}

std::int64_t tile_hint(const Schedule& plan,
                       const std::vector<LoopVar>& variables) {
  if (!is_symbolic(plan, variables)) return power_of_two(extent_of(variables));
  const auto hint = static_cast<std::uint64_t>(size_hint(plan, variables));
  return static_cast<std::int64_t>(std::bit_floor(hint));
}

}  // namespace weft
