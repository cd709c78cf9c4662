// Which tile a product takes on the matrix units, by how long its tiles keep
// the multiprocessors busy.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/choices/product_tiles.hpp"
#include "compiler/choices/reasons.hpp"
#include "compiler/loops/gpu_facts.hpp"

namespace weft {

/// A product of float32 by three of TF32, which keeps float32's bits.
struct ProductSize {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t k = 1;
  /// Of the second factor, neighbours of the sum lie side by side: so the
  /// matrix units read it.
  bool is_along = true;
  bool may_split_k = true;  ///< programs may share a sum
  bool may_split_factors =
      true;  ///< factors may be split beforehand (tf32x3_split.cpp)
};

/// A tile, and the estimated times of all that could be taken.
struct ProductTileChoice {
  ProductTile tile;
  std::vector<EstimatedOption> options;
};

/// The tile that takes the least time, by the model.
ProductTileChoice choose_product_tile(const ProductSize& size,
                                      const GpuFacts& facts);

/// Number of programs that share the sums of one tile (split-k), if there are
/// too few tiles for the device; otherwise 1.
std::int64_t split_k_programs(std::int64_t tiles, std::int64_t steps,
                              const GpuFacts& facts);

}  // namespace weft
