// Register tiling of a stencil (depthwise convolutions, pooling): a thread
// takes four adjacent windows of a row and several rows of windows. Each input
// row that they cover is read once, in vectors, and overlaps come from
// registers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loops/gpu_facts.hpp"
#include "compiler/loops/jam.hpp"
#include "compiler/loops/pass.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Adjacent windows of a thread, and elements of a vector.
inline constexpr int kCudaWindowVectorWidth = 4;

/// A load whose address moves along the row with the window.
struct WindowRow {
  ExprId load = -1;
  std::int64_t step = 1;    ///< elements from one window to the next
  std::int64_t spread = 0;  ///< from one of a window's elements to the next
  std::int64_t shift = 0;   ///< of the first behind the vector that it lies in
  std::int64_t elements =
      0;  ///< that the lanes' windows cover, in whole vectors
};

struct CudaWindows {
  LoopVar lane;  ///< counts adjacent windows
  LoopVar tap;   ///< a window's own variable along them; id -1: it has none
  std::vector<WindowRow> rows;
  Jam below;  ///< rows of windows that a thread takes
  /// The reduction of a row's elements is the same in all windows that share
  /// the row.
  bool alike = false;
};

/// Number of elements of a buffer that may be read, needed or not.
std::int64_t cuda_span(const Buffer& buffer);

/// True if a nest reduces columns, in any order, and stores what depends on the
/// results.
bool reduces_columns_in_any_order(const Schedule& plan, const Nest& nest,
                                  const std::vector<Pass>& passes);

/// True if all terms of the index are multiples of a vector, except its offset
/// and what moves along the row.
bool rows_begin_aligned(const Index& at, LoopVar lane, LoopVar tap);

/// True if a window has the same value for an element as the window `distance`
/// before it along `outer` has `further` elements along `inner`.
bool windows_share(const Program& program, const Pass& reduction, LoopVar outer,
                   std::int64_t distance, LoopVar inner, std::int64_t further);

/// Empty if the nest reduces no windows, or not of this kind.
std::optional<CudaWindows> find_windows(const Schedule& plan, const Nest& nest,
                                        const std::vector<Pass>& passes,
                                        const GpuFacts& facts);

}  // namespace weft
