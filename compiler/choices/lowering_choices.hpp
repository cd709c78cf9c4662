// What lowering decides by speed alone. Nothing that a result depends on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

struct LoweringChoices {
  /// Rows of more elements take mean and variance in one pass: in two they
  /// would come from memory twice. Targets say how much their chip keeps; this
  /// is an eighth of a 4 MiB cache, in float32 (rule of thumb, 2026-11-21).
  std::int64_t single_pass_elements = 1 << 17;
  /// Rows that lie beside each other in memory are read so many at a time at
  /// least, and all of them have to be kept. H200, 2026-11-21.
  std::int64_t coalesced_rows = 32;
  /// A stack of more tensors is the framework's: each element would ask which
  /// of them it is of. H200, 2026-11-22.
  std::size_t stacked_tensors_max = 16;
  /// A transposed convolution of which one in so many outputs meets an input
  /// at all computes only those. H200, 2026-11-23.
  std::int64_t sparse_outputs_min = 4;
  /// A sum to where an index says looks at each entry for each row that it may
  /// be of: with more rows than this, and more entries, it is the framework's,
  /// which adds in place.
  std::int64_t summed_places_max = 64;
  /// What the windows of a convolution read is made again by each that reads
  /// it, up to so many operations an element in all; beyond, it is kept. By
  /// arithmetic an H200 does 66 operations in the time of a write and a read;
  /// some of them are shared by windows side by side. (A layer norm in front of
  /// 7 x 7 has some 1100: 2.4 ms of such kernels where eager took 1.2,
  /// 2026-11-28.)
  std::int64_t window_operations_max = 512;
  /// Of so many values of a subgraph it is worked out whether they are better
  /// computed once and kept: 18 in one of 330 calls, 70 ms each (2026-11-29).
  std::int64_t kept_trials_max = 200;
  /// … and a value is kept that saves more than this, in microseconds.
  double kept_gain_us = 0.5;
};

}  // namespace weft
