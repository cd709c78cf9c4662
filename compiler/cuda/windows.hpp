// Register tiling of a stencil (depthwise convolutions, pooling): a thread
// takes four adjacent windows of a row and several rows of windows; each input
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
inline constexpr int kCudaWindowLanes = 4;

/// A load whose place moves along the row with the window.
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
  /// What is folded of a row is the same in all windows that it is in.
  bool alike = false;
};

/// Elements of a buffer that may be read, wanted or not.
std::int64_t cuda_span(const Buffer& buffer);

/// Whether a nest folds columns, in any order, and stores what is made of them.
bool folds_freely(const Schedule& plan, const Nest& nest,
                  const std::vector<Pass>& passes);

/// Whether rows begin in vectors: all of the place is a multiple of one, but
/// for its offset and what moves along the row.
bool rows_begin_aligned(const Index& at, LoopVar lane, LoopVar tap);

/// Whether a window has the same for an element as the window that lies
/// `distance` before it along `outer` has `further` elements along `inner`.
bool windows_share(const Program& program, const Pass& fold, LoopVar outer,
                   std::int64_t distance, LoopVar inner, std::int64_t further);

/// Nothing, where the nest folds no windows or not of this kind.
std::optional<CudaWindows> find_windows(const Schedule& plan, const Nest& nest,
                                        const std::vector<Pass>& passes,
                                        const GpuFacts& facts);

}  // namespace weft
