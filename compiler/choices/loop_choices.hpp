// Speed-only constants of the scheduler: which stages share a loop nest, and
// when windows are reduced together.
#pragma once

#include <cstdint>

namespace weft {

struct LoopChoices {
  /// With less work a loop stays on one core of a processor: starting threads
  /// takes longer. Rule of thumb, 2026-11-21: some 10 us of work.
  std::int64_t parallel_elements_min = 1 << 15;
  /// On a GPU, rows of so many elements are worth a loop nest, or a walk, of
  /// their own. Measured on an H200, 2026-11-21 (norms of channels last).
  std::int64_t long_row_elements = 1024;
  /// Neighbours in memory that are worth reading together. A GPU's memory is
  /// read in sectors of 32 bytes (CUDA's programming guide): eight float32.
  std::int64_t coalesced_elements = 8;
  /// Points for each core, below which the reduced elements are divided among
  /// cores. Two points keep a processor's cores busy to the end …
  std::int64_t points_per_core_min = 2;
  /// … a GPU's multiprocessor wants several to wait for memory in turn.
  /// Rule of thumb, 2026-11-22.
  std::int64_t points_per_multiprocessor_min = 4;
  /// Rows are few with one for so many multiprocessors. 2026-11-25.
  std::int64_t few_rows_divisor = 8;
  /// A pool's window: a row of it is shorter than a vector. 2026-11-21.
  std::int64_t window_row_elements_max = 8;

  /// One row's reductions (a norm) are computed again at each point of a
  /// reduction that reads them and a row of its own (a product with one row),
  /// if that row has so many elements at most, and they read so many times as
  /// much at most. H200, 2026-11-29: decoders' layers of one token, 1024, 2048
  /// and 4096 wide, took 1/1.49, 1/1.28 and 1/1.15 of Inductor's time with
  /// norms in the products' kernels.
  std::int64_t recomputed_row_elements_max = 1 << 14;
  std::int64_t recomputed_rows_max = 2;
  /// Reductions of one vector with rows of their own in one kernel, at most.
  std::int64_t reductions_beside_max = 4;

  /// Unroll and jam. Windows that are reduced together need an accumulator
  /// each; more of them spill registers. H200, 2026-11-22.
  std::int64_t jam_windows_max = 8;
  /// Of what windows read one by one, jammed ones read so much at most; with
  /// less to share the code is only longer. H200, 2026-11-22.
  double jam_reads_share_max = 0.75;
  /// Elements of a row, and of all windows, that are written out: more take
  /// Triton's compiler minutes. 2026-11-22.
  std::int64_t jam_written_elements_max = 64;
  std::int64_t jam_taps_max = 512;
};

}  // namespace weft
