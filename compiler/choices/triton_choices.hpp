// Speed-only constants of the `triton` target: tiles, and how many programs
// share a reduction or a product. Measured on an H200 on the date of each
// field. Which variant of a source (triton_variants.hpp) is fastest is
// benchmarked.
#pragma once

#include <cstdint>

namespace weft {

/// Reductions, scans and elementwise work.
struct TritonNestChoices {
  /// Elements of a window that are worth a load of their own each, and up to
  /// which its loop is unrolled. 2026-11-21.
  std::int64_t window_elements_max = 128;
  std::int64_t unrolled_window_elements_max = 32;
  /// Accumulators of a window's points that a thread has, and points.
  /// 2026-11-21.
  int window_accumulators_max = 32;
  int window_points_max = 8;
  /// Where points are coalesced: inner elements that a program takes at a time,
  /// and points that are read together. 2026-11-21.
  std::int64_t column_steps = 32;
  std::int64_t column_points = 32;
  /// The fewest of them that one thread reduces. 2026-11-21.
  int column_elements_per_thread_min = 16;
  /// Points along the last dimension from which on these stay in one program.
  std::int64_t coalesced_points_min = 16;
  /// Elements of a row from which on it is a tile's row, and the width of the
  /// tile of a transposition. 2026-11-21.
  std::int64_t row_elements_min = 64;
  /// Tiles of windows in a row from which on interior ones have code without
  /// masks (of fewer, the outer two are nearly all), and their least width.
  /// 2026-11-22.
  std::int64_t interior_tiles_min = 3;
  std::int64_t interior_points_min = 128;
  /// Points of a program that share a recomputed row: elements of all rows that
  /// they read, at most, and programs for each multiprocessor, at least. Two
  /// rows of 4096 in eight warps were the fastest. 2026-11-29.
  std::int64_t recomputing_elements_max = 1 << 14;
  std::int64_t recomputing_programs_min = 2;
  /// Split reductions: coalesced points of a program, and programs for each
  /// multiprocessor. Short pieces of memory want more loads in flight than
  /// rows. 2026-11-21: 184, 160 and 138 us with 4, 16 and 32 programs.
  std::int64_t split_column_points = 64;
  std::int64_t split_programs_of_columns = 32;
  std::int64_t split_programs_of_rows = 8;
};

/// Products and convolutions on the matrix units.
struct TritonProductChoices {
  /// Thinner products are ordinary reductions: padded to the units' smallest
  /// tile of 16, half of them would be zeros. 2026-11-21.
  std::int64_t rows_min = 16;
  std::int64_t columns_min = 8;
  std::int64_t folded_min = 8;
  /// Rows of tiles that are walked together, so that their columns stay in the
  /// cache (as in Triton's tutorial). 2026-11-21.
  std::int64_t tiles_together = 8;
  /// Split-k. With fewer tiles than multiprocessors, programs divide a sum of
  /// at least so many steps, each taking at least so many, up to so many
  /// programs a multiprocessor. 2026-11-21.
  std::int64_t split_steps_min = 16;
  std::int64_t share_steps_min = 8;
  std::int64_t split_programs_per_sm = 2;
  /// TF32x3 split. Factors of exact products are split in a pass of their own
  /// if each element is used often enough, and in scratch memory of so many
  /// bytes at most. 2026-11-21.
  std::int64_t presplit_extent_min = 256;
  std::int64_t presplit_folded_min = 64;
  std::int64_t presplit_bytes_max = std::int64_t{4} << 30;
  /// Gathered windows: neighbouring lanes with contiguous reads, if that pads
  /// few rows: powers of two between these. 2026-11-23.
  std::int64_t gathered_lanes_max = 32;
  std::int64_t gathered_lanes_min = 8;
  /// With fewer rows, laying out the weights is no small part of the work; with
  /// more elements of them it takes too much scratch. 2026-11-23.
  std::int64_t layout_rows_min = 8192;
  std::int64_t layout_elements_max = std::int64_t{1} << 24;
  /// More phases of a transposed convolution would leave a tile few columns of
  /// each. 2026-11-23.
  std::int64_t phases_max = 16;
};

/// Weights that a program lays out. 2026-11-23.
inline constexpr std::int64_t kTritonLayoutBlock = 1024;
/// Extent of the square tile of a factor that is split at a time. 2026-11-21.
inline constexpr std::int64_t kTritonSplitSquare = 64;

struct TritonChoices {
  TritonNestChoices nest;
  TritonProductChoices product;
};

}  // namespace weft
