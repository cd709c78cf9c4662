// The variants in which a C++ source is written: which is fastest is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// The differences between the variants of one kernel.
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

struct NamedCpuVariant {
  std::string name;  ///< for people and reports
  CpuVariant variant;
};

/// The one expected to be fastest first, for vectors of so many bytes. `large`:
/// the kernel writes more than caches hold.
std::vector<NamedCpuVariant> cpu_variants(bool large, int vector_bytes);

}  // namespace weft
