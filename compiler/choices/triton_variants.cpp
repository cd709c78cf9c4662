#include "compiler/choices/triton_variants.hpp"

#include <algorithm>

namespace weft {
namespace {

// Rows of halves: benchmarks/halves.py timed 56 reductions of bfloat16 rows
// (512 to 32768 elements) on an H200, 2026-11-29. The variant with 32 elements
// a thread, which has a larger tile too, was the fastest in 34 of them. With
// few rows 32 elements are slower: 0.78 for a softmax of 16 x 4096.
constexpr int kHalvesPerThread = 32;
constexpr int kHalvesPerThreadMin = 16;
// Loads of halves have 16 bytes from eight elements of a thread on.
constexpr int kHalvesPerAccess = 8;

void set_rows_of_halves(std::vector<TritonVariant>& list) {
  for (TritonVariant& variant : list) {
    variant.row_per_thread = std::max(variant.per_thread, kHalvesPerThreadMin);
    variant.per_thread = std::max(variant.per_thread, kHalvesPerAccess);
  }
  list.front().row_per_thread = kHalvesPerThread;
  list.back().row_per_thread = kHalvesPerThread;
}

}  // namespace

std::vector<TritonVariant> triton_variants(bool of_halves) {
  std::vector<TritonVariant> list;
  const auto add = [&](std::int64_t tile, std::int64_t row_max, int per_thread,
                       bool windows) {
    list.push_back({.tile = tile,
                    .row_max = row_max,
                    .per_thread = per_thread,
                    .row_per_thread = per_thread,
                    .windows = windows});
    return &list.back();
  };
  const auto dot = [](TritonVariant* v, std::int64_t rows, std::int64_t columns,
                      int warps, int stages) {
    v->block_m = rows;
    v->block_n = columns;
    v->dot_warps = warps;
    v->dot_stages = stages;
    return v;
  };
  auto* first = dot(add(1024, 16384, 8, true), 128, 128, 8, 3);
  first->splits_factors = first->jams = first->fits = true;
  first->recomputing_points = 2;
  dot(add(4096, 32768, 16, false), 128, 128, 4, 3);
  auto* exact = dot(add(8192, 8192, 16, false), 64, 128, 4, 4);
  exact->splits_factors = exact->exact = true;
  auto* small = dot(add(512, 4096, 4, true), 128, 64, 4, 4);
  small->gathered = 16;
  small->recomputing_points = 1;
  dot(add(2048, 65536, 32, false), 128, 256, 8, 3);
  auto* last = dot(add(1024, 8192, 4, true), 128, 128, 8, 4);
  last->exact = true;
  last->recomputing_points = 4;
  if (of_halves) set_rows_of_halves(list);
  return list;
}

}  // namespace weft
