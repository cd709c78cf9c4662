// The variants in which a Triton source is written: which is fastest is timed.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// What distinguishes the variants of one source.
struct TritonVariant {
  std::int64_t tile = 2048;      ///< elements that a program takes at a time
  std::int64_t row_max = 16384;  ///< longer rows are read again in each pass
  int per_thread = 16;           ///< elements of a tile for each thread,
  int row_per_thread = 16;       ///< and of a row that a program keeps
  std::int64_t block_m = 128;    ///< of a product: its tile,
  std::int64_t block_n = 128;
  std::int64_t block_k = 32;   ///< and how much of the sum at a time
  std::int64_t gathered = 32;  ///< the same, where loads are gathered
  bool fits = false;           ///< … but of float32, as its size calls for
  int dot_warps = 8;
  int dot_stages = 3;  ///< software pipeline's stages, at most
  bool splits_factors =
      false;            ///< a kernel splits factors of exact products first
  bool exact = false;   ///< products keep float32's bits
  bool windows = true;  ///< few inner elements are loaded one by one
  bool jams = false;    ///< … and those of overlapping windows together
  /// Points of a program that share a row's reductions, which each program
  /// computes again (compiler/loops/recompute.hpp); 0: they have their kernel.
  int recomputing_points = 0;
};

/// The one expected to be fastest first. `of_halves`: for a graph whose large
/// tensors all are float16 or bfloat16.
std::vector<TritonVariant> triton_variants(bool of_halves);

}  // namespace weft
