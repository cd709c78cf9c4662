// Speed-only constants of lowering.
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
  /// A stack of more tensors stays PyTorch's: each element would have to find
  /// its tensor. H200, 2026-11-22.
  std::size_t stacked_tensors_max = 16;
  /// A transposed convolution in which at most one in so many outputs meets an
  /// input computes only those. H200, 2026-11-23.
  std::int64_t sparse_outputs_min = 4;
  /// A scatter-add that is computed per output element looks at every entry for
  /// every row. With more rows and more entries than this it stays PyTorch's,
  /// which adds in place.
  std::int64_t summed_places_max = 64;
  /// A value that the windows of a convolution read is recomputed by each
  /// reader up to so many operations an element in all; beyond, it is
  /// materialized. By arithmetic an H200 does 66 operations in the time of a
  /// write and a read; some of them are shared by neighbouring windows. (A
  /// layer norm in front of 7 x 7 has some 1100: 2.4 ms of such kernels where
  /// eager took 1.2, 2026-11-28.)
  std::int64_t window_operations_max = 512;
  /// Number of values of a subgraph, at most, for which materializing is
  /// evaluated: 18 in one of 330 calls, 70 ms each (2026-11-29).
  std::int64_t kept_trials_max = 200;
  /// A value is materialized if that saves more than this, in microseconds.
  double kept_gain_us = 0.5;
};

}  // namespace weft
