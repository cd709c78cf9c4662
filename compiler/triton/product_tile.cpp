#include "compiler/triton/product_tile.hpp"

#include <algorithm>

#include "compiler/choices/cost.hpp"
#include "compiler/loops/integers.hpp"

namespace weft {
namespace {

/// Microseconds in which one multiprocessor adds one product to one element of
/// a tile.
double element_us(const GpuFacts& facts) {
  const double operations = 2 * facts.choices.contraction.exact_passes;
  return operations * facts.sms / (facts.rates.tf32_tflops * 1e6);
}

double tile_us(const ProductSize& size, const TileShares& shares,
               const GpuFacts& facts) {
  const std::int64_t rows = std::min(shares.tile.rows, power_of_two(size.rows));
  const std::int64_t columns =
      std::min(shares.tile.columns, power_of_two(size.columns));
  const std::int64_t tiles =
      size.batch * ceil_div(size.rows, rows) * ceil_div(size.columns, columns);
  const std::int64_t split_k =
      size.may_split_k
          ? split_k_programs(tiles, ceil_div(size.k, kTileStep), facts)
          : 1;
  const auto elements = static_cast<double>(
      ceil_div(tiles * split_k, facts.sms) * rows * columns);
  const double k =
      static_cast<double>(size.k) / static_cast<double>(split_k) + kTileEnds;
  double us = elements * k * element_us(facts) /
              (size.is_along ? shares.along : shares.transposed);
  if (shares.tile.splits_factors) {
    const auto factors =
        static_cast<double>(size.batch * (size.rows + size.columns) * size.k);
    us += cost_us({.bytes = kSplitFactorBytes * factors}, facts.rates);
  }
  return us;
}

/// "128x64, 8 warps, factors split beforehand".
std::string name_of(const ProductTile& tile) {
  return std::to_string(tile.rows) + "x" + std::to_string(tile.columns) + ", " +
         std::to_string(tile.warps) + " warps" +
         (tile.splits_factors ? ", factors split beforehand" : "");
}

}  // namespace

ProductTileChoice choose_product_tile(const ProductSize& size,
                                      const GpuFacts& facts) {
  const TileShares* best = nullptr;
  double best_us = 0;
  std::vector<EstimatedOption> options;
  for (const TileShares& candidate : kProductTiles) {
    if (candidate.tile.splits_factors && !size.may_split_factors) continue;
    const double us = tile_us(size, candidate, facts);
    options.push_back({name_of(candidate.tile), us});
    if (best == nullptr || us < best_us) {
      best = &candidate;
      best_us = us;
    }
  }
  return {best->tile, std::move(options)};
}

std::int64_t split_k_programs(std::int64_t tiles, std::int64_t steps,
                              const GpuFacts& facts) {
  const TritonProductChoices& choices = facts.choices.triton.product;
  if (tiles >= facts.sms || steps < choices.split_steps_min) return 1;
  return std::max<std::int64_t>(
      1, std::min(choices.split_programs_per_sm * facts.sms / tiles,
                  steps / choices.share_steps_min));
}

}  // namespace weft
