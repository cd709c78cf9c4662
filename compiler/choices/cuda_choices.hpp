// Speed-only constants of the `cuda` target: how the threads of a GPU divide
// rows, columns and windows. Measured on an H200 on the date of each field.
// Which variant of a source (cuda_variants.hpp) is fastest is benchmarked.
#pragma once

#include <cstdint>

namespace weft {

// Warps and threads that the text of a kernel depends on. A value that does not
// fit the others is no choice, so they cannot be overridden. 2026-11-22.

/// Store warps (the epilogue) of a warp-specialised block. The block also has a
/// producer warp, a publisher, a gatherer of partials, and the warps that
/// reduce.
inline constexpr int kCudaStoreWarps = 12;
/// Vector loads of a stream's chunk: one of each thread that stores them.
inline constexpr std::int64_t kCudaStreamChunk = 32 * kCudaStoreWarps;
/// A stream's warps that reduce; where these are exponentials, more. They
/// divide a chunk among themselves.
inline constexpr int kCudaReduceWarps = 4;
inline constexpr int kCudaReduceWarpsOfExponentials = 6;
static_assert(kCudaStreamChunk % (32 * kCudaReduceWarps) == 0 &&
              kCudaStreamChunk % (32 * kCudaReduceWarpsOfExponentials) == 0);
/// Threads that reduce down the columns of a streamed matrix.
inline constexpr int kCudaColumnThreads = 512;
/// Distance between two counters of cooperative groups in words, so that no two
/// share a cache line.
inline constexpr std::int64_t kCudaCounterDistance = 32;

/// Reductions along rows, and down columns.
struct CudaRowChoices {
  /// Vector loads of a row that a thread takes where several threads share a
  /// short one. 2026-11-21.
  int short_row_vectors_per_thread = 4;
  /// A split reduction: blocks for each multiprocessor, and vector loads of a
  /// thread at least. 2026-11-21.
  std::int64_t split_blocks_per_sm = 4;
  std::int64_t split_vectors_min = 4;
  /// Rows that are not persistent: blocks for each multiprocessor.
  std::int64_t walk_blocks_per_sm = 2;
  /// Down columns, several threads share a point until a multiprocessor has
  /// this fraction of the threads that it can keep. 2026-11-21.
  std::int64_t resident_threads_divisor = 2;
  int column_threads_per_point_max = 16;
  /// One multiprocessor in so many is in a group that no cluster fills. An H200
  /// runs 15 clusters of 8 blocks at a time on its 132. 2026-11-21.
  std::int64_t sms_per_lost_sm = 11;
  /// Unaligned rows (`cuda_row_begin`): shorter ones lose more at their ends
  /// than vector loads gain. 2026-11-21.
  std::int64_t shifted_row_elements_min = 256;
  /// Elements that are read again for each value of a loop variable, from which
  /// on a thread takes several values, and how many. 2026-11-21.
  std::int64_t reread_elements_min = 1 << 18;
  std::int64_t reread_values = 16;
};

/// Warp-specialised streaming of rows through shared memory (stream.cpp).
struct CudaStreamChoices {
  /// Bytes of copies in flight of a block: with more, reads become slower.
  /// 2026-11-22.
  std::int64_t ahead_bytes = 48 << 10;
  /// Vector loads of the next row that a store warp's thread prefetches.
  /// 2026-11-25: group norm of 8 MB rows from 4620 to 3740 us.
  std::int64_t prefetched_vectors = 12;
  /// A row takes a third of a block's shared memory, so that later rows fit
  /// while it waits for other blocks' partials. A row whose reduction takes
  /// exponentials needs more warps and takes a quarter. 2026-11-25.
  std::int64_t rows_in_memory = 3;
  std::int64_t rows_in_memory_of_exponentials = 4;
  /// Chunks of a row that fit in shared memory, at least.
  std::int64_t chunks_min = 8;
  /// Down columns: rows of a chunk that fit, at least, and multiprocessors that
  /// have a matrix in the last wave, at least. 2026-11-22.
  std::int64_t column_chunks_min = 3;
  double busy_share_min = 0.8;
};

/// Register tiles of windows, four adjacent ones of several rows (windows.cpp).
/// 2026-11-22.
struct CudaWindowChoices {
  /// Elements of one row in a thread's registers.
  std::int64_t row_elements_max = 48;
  /// Rows of windows that a thread takes, and input rows that it reads for
  /// them: more take more registers than they save.
  std::int64_t windows_max = 8;
  std::int64_t rows_max = 16;
  /// Of the reads of windows one by one, so many at most.
  double reads_share_max = 0.75;
  /// Reads that are written out: what is unrolled is soon built.
  std::int64_t written_reads_max = 512;
  /// With fewer threads for each multiprocessor several had better share a
  /// window …
  std::int64_t threads_per_sm_min = 256;
  /// … and with fewer of those that take several windows, each takes one.
  std::int64_t together_threads_per_sm_min = 1024;
};

/// Stencil tiles of pooling, with planes kept for the next window
/// (stencil_tile.cpp). 2026-11-25.
struct CudaStencilChoices {
  /// Planes that a thread keeps, and reads of one that are written out.
  std::int64_t kept_planes_max = 12;
  std::int64_t written_reads_max = 128;
  /// Windows of one walk. Longer walks read less twice …
  std::int64_t walk_windows_max = 32;
  std::int64_t walk_windows_min = 4;
  /// … but with fewer threads than so many for each multiprocessor, some six
  /// times what it has at a time, the last ones run alone.
  std::int64_t threads_per_sm_min = 12 * 1024;
  /// A warp's ends read so many vector loads beyond it at most, with a part of
  /// its threads.
  std::int64_t halo_vectors_max = 4;
  /// Pairs of window and element for which guards are tried while compiling.
  std::int64_t tried_pairs_max = 1 << 14;
};

struct CudaChoices {
  CudaRowChoices rows;
  CudaStreamChoices stream;
  CudaWindowChoices windows;
  CudaStencilChoices stencil;
};

}  // namespace weft
