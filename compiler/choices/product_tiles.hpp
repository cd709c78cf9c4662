// Tiles of float32 products on the matrix units, and the constants of the model
// of their times (compiler/triton/product_tile.hpp). They affect speed only.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

struct ProductTile {
  std::int64_t rows = 128;
  std::int64_t columns = 128;
  int warps = 8;
  int stages = 3;
  bool splits_factors = false;
};

/// Share of the matrix units' rate that kernels with a tile reach: if the sum
/// is contiguous in the second factor, and if that factor is transposed. 0: not
/// measured.
struct TileShares {
  ProductTile tile;
  double along = 0;
  double transposed = 0;
};

/// Geometric means over 116 products on an H200, 2026-11-29: 64 to 32,768 rows,
/// 48 to 6,144 columns and terms, batches of up to 120. CUDA graphs,
/// PyTorch 2.11, Triton 3.6, median of seven rounds.
inline constexpr std::array<TileShares, 6> kProductTiles = {{
    {{128, 128, 8, 3, true}, 0.68, 0.68},
    {{64, 64, 4, 3, true}, 0.58, 0.58},
    {{128, 128, 8, 3, false}, 0.575, 0.354},
    {{128, 64, 8, 4, false}, 0.575, 0.435},
    {{64, 64, 4, 4, false}, 0.517, 0.33},
    {{128, 32, 4, 4, false}, 0.469, 0.42},
}};
/// Prologue and epilogue of a tile, in elements of the sum. Same date.
inline constexpr double kTileEnds = 96;
/// Elements of the sum in a step (TritonVariant::block_k).
inline constexpr std::int64_t kTileStep = 32;
/// Bytes of a factor's element that is read once and written in two halves.
inline constexpr double kSplitFactorBytes = 12;

}  // namespace weft
