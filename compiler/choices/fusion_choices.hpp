// Speed-only constants of the partition of a model into subgraphs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// Calls in one region at most: what a C++ compiler still takes quickly, and
/// what anybody writes as one kernel.
inline constexpr std::size_t kRegionCallsMax = 256;

struct FusionChoices {
  /// A copy into another layout is worth a kernel from so many elements on: a
  /// smaller one stays in an H200's cache. H200, 2026-11-21.
  std::int64_t layout_copy_elements_min = 1 << 20;
  /// Below so many elements a convolution takes less time than copies of its
  /// image and result into another layout. H200, 2026-11-21.
  std::int64_t channels_last_elements_min = 1 << 16;
  /// So many regions that differ only in where they read are the steps of a
  /// loop over time. 2026-11-23 (recurrent models of KernelBench's level 3).
  std::size_t loop_steps_min = 4;
  /// Where such a read is not aligned it has to be copied: in loops of so many
  /// steps, and of so many bytes at most, that is cheaper than a subgraph for
  /// each step. H200, 2026-11-23.
  std::size_t unaligned_loop_steps_min = 16;
  std::int64_t unaligned_copy_bytes_max = 1 << 20;
};

}  // namespace weft
