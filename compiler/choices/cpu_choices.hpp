// What the `cpu` target decides by speed alone. Nothing that a result depends
// on. Set with the target's first kernels, 2026-11-21, on two cores of a server
// processor with AVX-512: which of a source's variants is fastest is timed.
#pragma once

#include <cstdint>

namespace weft {

struct CpuChoices {
  /// A row's moments are taken in two passes up to l2_bytes over this many
  /// elements, so that the second finds the row in the cache.
  std::int64_t two_pass_l2_divisor = 8;
  /// Results of more than so many second caches are tried with stores that go
  /// past them.
  std::int64_t streamed_l2_multiple = 8;
  /// Values that are dear to compute are kept for the next pass where a row of
  /// them fills at most one in so many of the second cache.
  std::int64_t kept_l2_divisor = 4;
  /// Of what a thread walks down columns at a time, the rows of all fill at
  /// most one in so many of the second cache.
  std::int64_t columns_l2_divisor = 2;
  /// Columns that a fold takes at a time, at most and at least; and an
  /// elementwise nest that goes down rows first.
  std::int64_t fold_columns_max = 1024;
  std::int64_t fold_columns_min = 64;
  std::int64_t down_columns_max = 128;
  /// Chunks that a split fold's outermost loop is cut into for each core, none
  /// of fewer steps.
  std::int64_t split_chunks_per_core = 2;
  std::int64_t split_chunk_steps_min = 32;
};

}  // namespace weft
