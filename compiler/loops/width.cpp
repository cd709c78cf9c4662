#include "compiler/loops/width.hpp"

#include <algorithm>
#include <cstdint>

namespace weft {

bool fits_32_bits(const Index& index) {
  constexpr std::int64_t most = INT32_MAX - (1 << 22);
  const auto [low, high] = index.range();
  return low >= -most && high <= most;
}

std::vector<Index> positions_of(const Program& program, const Nest& nest) {
  std::vector<Index> all;
  for (const Stage& stage : nest.stages) {
    all.push_back(stage.offset);
    all.emplace_back(extent_of(stage.inner));
    all.insert(all.end(), stage.result_index.begin(), stage.result_index.end());
    for (const auto& [index, extent] : stage.bounds) all.push_back(index);
    for (const ExprId id : program.arena.reachable(roots_of(stage))) {
      const auto& index = program.arena[id].index;
      all.insert(all.end(), index.begin(), index.end());
    }
  }
  return all;
}

bool needs_wide(const Program& program, const Nest& nest) {
  return !fits_32_bits(extent_of(nest.outer)) ||
         !std::ranges::all_of(positions_of(program, nest), fits_32_bits);
}

}  // namespace weft
