// Maps a nest to the threads of a GPU: which points and inner elements each
// thread has, and where these are kept between two passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/choices/cuda_variants.hpp"
#include "compiler/loops/gpu_facts.hpp"
#include "compiler/loops/pass.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Where a pass leaves what it read for the next pass.
enum class Persistence {
  nothing,    ///< in a cache, or in memory
  registers,  ///< of the thread that needs it again
  ring,       ///< shared memory, into which the next row is prefetched
  stream,     ///< the same, warp-specialised: a warp reduces or stores
};

/// How threads that share a row combine their partials.
enum class Combine {
  block,    ///< one block has the row, or several rows
  cluster,  ///< blocks of a cluster, through distributed shared memory
  grid,     ///< co-resident blocks, through global memory
  parts,    ///< a second kernel reduces the partials
};

struct KernelPlan {
  /// Threads lie along the points, which are neighbours in memory; otherwise
  /// along the inner elements.
  bool outer_reduction = false;
  bool scans = false;
  int lane = -1;  ///< the loop variable that lanes count
  int vector_width = 1;
  /// Rows may begin at any address: vectors lie at aligned addresses, and some
  /// lanes of a row's first and last vector lie outside of the row.
  bool shifted = false;
  Index row_begin;  ///< where such a row begins
  int threads = 256;
  int blocks_per_sm = 1;     ///< at least so many must fit
  int points_per_block = 1;  ///< points (columns: vectors of them) in a block
  int threads_per_point = 256;  ///< threads of a block that share a point
  std::int64_t blocks = 1;      ///< that share a point
  std::int64_t steps = 1;  ///< vectors (columns: elements) of a thread in a row
  std::int64_t row = 1;    ///< inner elements of the longest pass
  std::int64_t points = 1;
  Persistence persistence = Persistence::nothing;
  Combine combine = Combine::block;
  std::int64_t slots = 0;             ///< of the ring, for each thread
  std::int64_t chunk = 0;             ///< vectors of a stream's slot
  std::int64_t copies_in_flight = 0;  ///< chunks
  std::int64_t register_chunks =
      0;  ///< chunks of a row in registers of the store warps
  int reduce_warps = 0;
  std::int64_t rows_in_flight = 1;  ///< of a stream, at most
  std::int64_t cooperative_groups =
      0;  ///< points at a time; 0: all, each by its own blocks
  std::vector<ExprId> persistent;
  std::vector<LoopVar>
      persistent_inner;  ///< inner variables of the persistent passes
  std::string reason;    ///< why this plan, for people
};

/// Chooses the plan of a nest.
KernelPlan plan_kernel(const Schedule& plan, const Nest& nest,
                       const std::vector<Pass>& passes,
                       const CudaVariant& variant, const GpuFacts& facts);

/// Longest row, in elements of four bytes, that stays persistent in the shared
/// memory of all multiprocessors together.
std::int64_t cuda_row_max(const CudaVariant& variant, const GpuFacts& facts);

}  // namespace weft
