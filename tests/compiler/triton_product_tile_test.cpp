// Which tile a product of float32 takes.
#include <doctest/doctest.h>

#include "compiler/triton/product_tile.hpp"

using namespace weft;

namespace {

const GpuFacts kGpu = {.sms = 132};

ProductTile tile_of(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  return choose_product_tile({.rows = rows, .columns = columns, .k = k}, kGpu)
      .tile;
}

}  // namespace

TEST_CASE("A large product has large tiles of factors that are split before") {
  const ProductTile tile = tile_of(16384, 4096, 4096);
  CHECK(tile.rows == 128);
  CHECK(tile.columns == 128);
  CHECK(tile.splits_factors);
}

TEST_CASE("Tiles are narrower where that keeps more multiprocessors busy") {
  // 81 tiles of 128 x 128 for 132 multiprocessors, or 306 of half as much.
  const ProductTile tile = tile_of(1100, 1100, 480);
  CHECK(tile.rows * tile.columns <= 64 * 128);
  // As many as there are multiprocessors, each once: none is narrower.
  CHECK(tile_of(12 * 128, 11 * 128, 480).rows == 128);
  CHECK(tile_of(12 * 128, 11 * 128, 480).columns == 128);
}

TEST_CASE(
    "Splitting factors before is left where it takes longer than it saves") {
  CHECK_FALSE(tile_of(16384, 256, 256).splits_factors);
  ProductSize size = {.rows = 16384, .columns = 4096, .k = 4096};
  size.may_split_factors = false;
  CHECK_FALSE(choose_product_tile(size, kGpu).tile.splits_factors);
}

TEST_CASE("A second factor that lies across has other tiles") {
  ProductSize size = {.rows = 16384, .columns = 2048, .k = 512};
  size.is_along = size.may_split_factors = false;
  const ProductTile across = choose_product_tile(size, kGpu).tile;
  CHECK(across.columns < 128);
  size.is_along = true;
  CHECK(choose_product_tile(size, kGpu).tile.columns *
            choose_product_tile(size, kGpu).tile.rows >=
        across.columns * across.rows);
}

TEST_CASE("Few tiles share long sums, and no sum is shared without need") {
  CHECK(split_k_programs(132, 1000, kGpu) == 1);
  CHECK(split_k_programs(10, 8, kGpu) == 1);
  CHECK(split_k_programs(10, 1000, kGpu) == 26);
  CHECK(split_k_programs(10, 64, kGpu) == 8);
}
