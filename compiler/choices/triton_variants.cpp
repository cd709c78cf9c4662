#include "compiler/choices/triton_variants.hpp"

#include <algorithm>

namespace weft {
namespace {

// Rows of halves: fewer threads with more elements each wait less for each
// other. benchmarks/halves.py timed 56 reductions of bfloat16 rows (512 to
// 32768 elements) on an H200, 2026-11-29. With 32 elements a thread, 34 of them
// were the fastest, up to 1.6 times as fast as with 8. Longer rows in registers
// did not gain: a layer norm of 32768 elements took 64 us instead of 38.
constexpr int kHalvesPerThread = 32;
constexpr int kHalvesPerThreadMin = 16;

void set_rows_of_halves(std::vector<TritonVariant>& list) {
  for (TritonVariant& variant : list) {
    variant.row_per_thread = std::max(variant.per_thread, kHalvesPerThreadMin);
  }
  list.front().row_per_thread = kHalvesPerThread;
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
    v->dot_rows = rows;
    v->dot_columns = columns;
    v->dot_warps = warps;
    v->dot_stages = stages;
    return v;
  };
  auto* first = dot(add(1024, 16384, 8, true), 128, 128, 8, 3);
  first->presplits = first->jams = first->fits = true;
  dot(add(4096, 32768, 16, false), 128, 128, 4, 3);
  auto* exact = dot(add(8192, 8192, 16, false), 64, 128, 4, 4);
  exact->presplits = exact->exact = true;
  dot(add(512, 4096, 4, true), 128, 64, 4, 4)->gathered = 16;
  dot(add(2048, 65536, 32, false), 128, 256, 8, 3);
  dot(add(1024, 8192, 4, true), 128, 128, 8, 4)->exact = true;
  if (of_halves) set_rows_of_halves(list);
  return list;
}

}  // namespace weft
