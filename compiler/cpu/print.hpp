// Prints a schedule as C++: the loop nests of one kernel.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/choices/reasons.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// What distinguishes the variants of one kernel.
struct CpuVariant {
  int vector_width = 8;        ///< elements in a vector
  int unroll = 4;              ///< independent accumulators in a reduction
  std::int64_t block = 8192;   ///< columns that a thread walks at a time
  bool keep_values = false;    ///< dear values are kept for the next pass
  bool stream_stores = false;  ///< full vectors go past the cache
  bool free_rounding = false;  ///< see LoweringOptions
  /// One of several texts of which those for any sizes are made: the kernel's
  /// last parameters are so many sizes, and what is no multiple of them is
  /// spelled out.
  std::size_t symbols = 0;

  bool for_sizes() const { return symbols != 0; }
};

/// A source, and why each of its loop nests is as it is.
struct CpuText {
  std::string text;
  std::vector<KernelReason> reasons;
};

/// The whole source, prelude included. `title` goes into its first comment.
CpuText print_cpu(const Schedule& plan, const CpuVariant& variant,
                  const LoopFacts& facts, const std::string& title);

}  // namespace weft
