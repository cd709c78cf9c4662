// Speed-only constants of the `cpu` target. Set with the target's first
// kernels, 2026-11-21, on two cores of a server processor with AVX-512. Which
// variant of a source is fastest is benchmarked.
#pragma once

#include <cstdint>

namespace weft {

struct CpuChoices {
  /// A row's moments are taken in two passes up to l2_bytes over this many
  /// elements, so that the second finds the row in the cache.
  std::int64_t two_pass_l2_divisor = 8;
  /// Results larger than so many L2 caches are also tried with non-temporal
  /// stores.
  std::int64_t streamed_l2_multiple = 8;
  /// Values that are expensive to compute are cached for the next pass if a row
  /// of them fills at most this fraction of the L2 cache.
  std::int64_t kept_l2_divisor = 4;
  /// All rows of the columns that a thread walks down at a time fill at most
  /// this fraction of the L2 cache.
  std::int64_t columns_l2_divisor = 2;
  /// Columns that a reduction takes at a time, at most and at least; and an
  /// elementwise nest that goes down rows first.
  std::int64_t fold_columns_max = 1024;
  std::int64_t fold_columns_min = 64;
  std::int64_t down_columns_max = 128;
  /// Chunks of a split reduction's outermost loop for each core, and least
  /// number of steps of a chunk.
  std::int64_t split_chunks_per_core = 2;
  std::int64_t split_chunk_steps_min = 32;
};

}  // namespace weft
