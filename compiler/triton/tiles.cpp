#include "compiler/triton/tiles.hpp"

#include <bit>

#include "compiler/loops/growing.hpp"
#include "compiler/loops/integers.hpp"

namespace weft {

Count tiles_of(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent) {
  return parts_of(extent_of(variables), extent, grows(plan, variables), "//");
}

// What grows is a multiple of what does not, and may be of nothing else.
bool is_ragged(const Schedule& plan, const std::vector<LoopVar>& variables,
               std::int64_t extent) {
  std::int64_t known = 1;
  for (const LoopVar& v : variables) {
    if (!plan.growing.contains(v.id)) known *= v.extent;
  }
  return known % extent != 0;
}

std::int64_t usual_tile(const Schedule& plan,
                        const std::vector<LoopVar>& variables) {
  if (!grows(plan, variables)) return power_of_two(extent_of(variables));
  const auto usual = static_cast<std::uint64_t>(usual_extent(plan, variables));
  return static_cast<std::int64_t>(std::bit_floor(usual));
}

}  // namespace weft
