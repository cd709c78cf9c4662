// Stencil tiles of windows without weights over several dimensions (pooling of
// images and volumes). The reduction is separable: first over the dimensions
// orthogonal to the row, four contiguous elements at a time, then along the
// row, by shuffles from neighbouring threads. A thread slides along one
// dimension and keeps the planes that the next windows share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loops/gpu_facts.hpp"
#include "compiler/loops/pass.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Contiguous elements that a thread reads of a row: a vector.
inline constexpr int kCudaStencilVectorWidth = 4;

struct CudaStencilTile {
  ExprId load = -1;  ///< what is reduced
  LoopVar lane;      ///< counts windows along the row
  LoopVar tap;       ///< a window's own variable along the row
  // Element indices count from the first vector that is read of a row. Element
  // k of a thread's window i lies at windows · step · thread + i · step + k ·
  // spread + shift, and exists from `low` to `high`.
  std::int64_t step = 1;
  std::int64_t spread = 1;
  std::int64_t shift = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t windows = 1;     ///< of a thread, adjacent
  std::int64_t vectors = 0;     ///< of a row
  std::int64_t threads = 0;     ///< of a row
  std::int64_t left = 0;        ///< halo of a warp before its own, in vectors
  std::int64_t right = 0;       ///< … and behind
  LoopVar walked;               ///< counts windows in the walk's direction
  LoopVar plane;                ///< a window's own variable in that direction
  std::int64_t distance = 1;    ///< between windows that share a plane
  std::int64_t fresh = 1;       ///< planes of a window that none before had
  std::int64_t walk = 1;        ///< windows of one walk
  std::vector<LoopVar> others;  ///< the rest of a window's own variables
  std::vector<ExprId> guards;   ///< of the load, but for those along the row

  std::int64_t element_index(std::int64_t window, std::int64_t element) const {
    return window * step + element * spread + shift;
  }
};

/// Empty if the nest reduces no windows, or not of this kind.
std::optional<CudaStencilTile> find_stencil_tile(
    const Schedule& plan, const Nest& nest, const std::vector<Pass>& passes,
    const GpuFacts& facts);

}  // namespace weft
