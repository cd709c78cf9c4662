// Which tile a product takes on the matrix units, by how long its tiles keep
// the multiprocessors busy.
#pragma once

#include <cstdint>

#include "compiler/loops/gpu_facts.hpp"

namespace weft {

/// A product of float32 by three of TF32, which keeps float32's bits.
struct ProductSize {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t folded = 1;
  /// Of the second factor, neighbours of the sum lie side by side: so the
  /// matrix units read it.
  bool is_along = true;
  bool may_share = true;  ///< programs may share a sum
  bool may_pack = true;   ///< factors may be split beforehand (presplit.cpp)
};

struct ProductTile {
  std::int64_t rows = 128;
  std::int64_t columns = 128;
  int warps = 8;
  int stages = 3;
  bool packs = false;
};

/// The one that takes the least time, by the model.
ProductTile fitting_tile(const ProductSize& size, const GpuFacts& facts);

/// How many programs share one tile's sum of so many steps, where there are so
/// many tiles: 1 where there are enough.
std::int64_t sharing_programs(std::int64_t tiles, std::int64_t steps,
                              const GpuFacts& facts);

}  // namespace weft
