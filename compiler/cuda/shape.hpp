// How the threads of a GPU share a nest: who has which points, who has which
// inner elements of them, and where these lie between two passes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/choices/cuda_variants.hpp"
#include "compiler/loops/gpu_facts.hpp"
#include "compiler/loops/pass.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Where what a pass read is for the next.
enum class Persistence {
  nothing,    ///< in a cache, or in memory
  registers,  ///< of the thread that needs it again
  ring,       ///< shared memory; what comes next is read ahead into it
  stream,     ///< the same, but each thread only folds, or only stores
};

/// Warps of a stream's block that store; besides these some fold, one reads,
/// one tells other blocks what is folded, and one hears theirs.
inline constexpr int kCudaStoringWarps = 12;

/// How threads that share a row put their folds together.
enum class Meet {
  block,    ///< one block has the row, or several rows
  cluster,  ///< blocks that see each other's shared memory
  grid,     ///< blocks that all run at once, through memory
  parts,    ///< not at all: another kernel folds what they leave
};

struct CudaShape {
  /// Threads lie along the points, which are neighbours in memory; else along
  /// the inner elements.
  bool columns = false;
  bool scans = false;
  int lane = -1;  ///< the loop variable that lanes count
  int lanes = 1;
  /// Rows begin anywhere: packs lie where they may, and the first and last of
  /// a row have lanes that do not exist.
  bool shifted = false;
  Index row_begin;  ///< where such a row begins
  int threads = 256;
  int blocks_per_sm = 1;    ///< at least so many must fit
  int across = 1;           ///< points (columns: packs of them) in a block
  int along = 256;          ///< threads of a block that share a point
  std::int64_t blocks = 1;  ///< that share a point
  std::int64_t steps = 1;   ///< packs (columns: elements) of a thread in a row
  std::int64_t row = 1;     ///< inner elements of the longest pass
  std::int64_t points = 1;
  Persistence persistence = Persistence::nothing;
  Meet meet = Meet::block;
  std::int64_t slots = 0;   ///< of the ring, for each thread
  std::int64_t chunk = 0;   ///< packs of a stream's slot
  std::int64_t coming = 0;  ///< chunks that are asked for at once
  std::int64_t kept = 0;    ///< of a row, in registers of those that store it
  int folding_warps = 0;
  std::int64_t rows_under_way = 1;  ///< of a stream, at most
  std::int64_t teams = 0;  ///< points at a time; 0: all, each by its own blocks
  std::vector<ExprId> persistent;
  std::vector<LoopVar> persistent_inner;  ///< what the passes that hold walk
};

CudaShape cuda_shape(const Schedule& plan, const Nest& nest,
                     const std::vector<Pass>& passes,
                     const CudaVariant& variant, const GpuFacts& facts);

/// A row of so many elements of four bytes can be held by all
/// multiprocessors together.
std::int64_t cuda_row_max(const CudaVariant& variant, const GpuFacts& facts);

}  // namespace weft
