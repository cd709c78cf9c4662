// Turns one loop nest of a schedule into CUDA kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/cuda/launch_planner.hpp"
#include "compiler/cuda/reduction.hpp"
#include "compiler/cuda/stencil_tile.hpp"
#include "compiler/cuda/windows.hpp"
#include "compiler/loops/integers.hpp"
#include "compiler/loops/kernel_reasons.hpp"
#include "compiler/text/number_text.hpp"

namespace weft {

/// Prints the kernels of one nest: which thread has which points, and how it
/// goes over their inner elements.
class CudaNest {
 public:
  CudaNest(const Schedule& plan, const Nest& nest, const CudaVariant& variant,
           const GpuFacts& facts, CudaModule& module);

  void print();
  /// Why its kernels have their threads; empty before print().
  const TileReason& tile_reason() const { return tile_reason_; }

 private:
  // elements.cpp
  void print_elements();
  bool reads_again(LoopVar variable) const;

  // rows.cpp
  void print_rows();
  CudaLaunch launch() const;
  void open_points(CudaKernel& kernel);
  /// "if (…) " for what one thread of a point's does.
  std::string if_leader() const;
  std::int64_t steps_of(const Pass& pass) const;
  /// Whether some threads have nothing to do in a pass's last step.
  bool is_ragged(const Pass& pass) const;
  /// The condition of where `r` is in a row of so many elements.
  std::string in_row(std::int64_t elements) const;
  std::string row_type() const;
  std::string row_end() const;
  void declare_shift(CudaKernel& kernel);
  /// Declares `r`: which inner element a thread has in that step.
  void declare_row_index(CudaKernel& kernel, const std::string& step);
  void print_pass(CudaKernel& kernel, const Pass& pass);
  void print_steps(CudaKernel& kernel, const Pass& pass,
                   const std::vector<CudaReduction>& reductions);
  void print_tile(CudaKernel& kernel, const Pass& pass,
                  const std::vector<CudaReduction>& reductions,
                  bool persistent);
  void conclude(CudaKernel& kernel, const CudaReduction& reduction);

  // points.cpp
  void print_points(CudaKernel& kernel, const Pass& pass);
  void declare_stores(CudaKernel& kernel,
                      const std::vector<const Stage*>& stores);
  void store_lanes(CudaKernel& kernel, const std::vector<const Stage*>& stores,
                   const std::string& condition);
  void store_vectors(CudaKernel& kernel,
                     const std::vector<const Stage*>& stores,
                     const std::string& condition);
  void spill(CudaKernel& kernel, const Stage& stage);
  void spill_all(CudaKernel& kernel, const CudaReduction& reduction);

  // persistent.cpp
  bool is_persistent(const Pass& pass) const;
  bool is_first_persistent(const Pass& pass) const;
  bool is_last_persistent(const Pass& pass) const;
  std::string vector_type(ExprId load) const;
  std::int64_t vector_bytes(ExprId load) const;
  std::int64_t ring_bytes() const;
  std::int64_t slot_vectors() const;
  void declare_slots(CudaKernel& kernel);
  void read_persistent(CudaKernel& kernel, const Pass& pass);
  void find_persistent(CudaKernel& kernel);
  void declare_ring(CudaKernel& kernel);
  void open_ahead(CudaKernel& kernel);
  std::int64_t cache_prefetch_steps() const;
  void prefetch_next_to_cache(CudaKernel& kernel);
  void prefetch_next(CudaKernel& kernel);

  // stream.cpp
  void print_streamed();
  void open_stream(CudaKernel& kernel, const CudaReduction& reduction);
  void open_stream_rows(CudaKernel& kernel);
  void open_stream_warps(CudaKernel& kernel, int first_warp);
  int first_store_warp() const;
  void read_stream(CudaKernel& kernel);
  void fold_stream(CudaKernel& kernel, const CudaReduction& reduction);
  void fold_chunks(CudaKernel& kernel, const Pass& pass,
                   const CudaReduction& reduction);
  void store_stream(CudaKernel& kernel, const CudaReduction& reduction);
  void declare_chunks(CudaKernel& kernel, std::int64_t vectors);
  void read_chunk(CudaKernel& kernel, const std::string& vector);

  // stream_columns.cpp
  void print_streamed_columns();
  void open_matrices(CudaKernel& kernel, const std::vector<LoopVar>& matrices);
  void read_rows(CudaKernel& kernel, const Pass& pass, const std::string& slot);
  void fold_rows(CudaKernel& kernel, const Pass& pass,
                 const CudaReduction& reduction, const std::string& slot);

  // scan.cpp
  void print_scan(CudaKernel& kernel, const Pass& pass);
  void print_scan_tile(CudaKernel& kernel, const Pass& pass,
                       const CudaReduction& reduction,
                       const std::string& before);

  // split.cpp
  void store_partial(CudaKernel& kernel, const CudaReduction& reduction);
  void print_merge();

  // nest_windows.cpp
  void print_windows(const CudaWindows& windows);

  // nest_stencil_tile.cpp
  void print_stencil_tile(const CudaStencilTile& tile);

  // cooperative_group.cpp
  /// A kernel that makes memory for `count` of that type, all zero.
  void print_clearing(const std::string& type, const std::string& name,
                      std::int64_t count, std::int64_t bytes);
  void clear_counters();
  void open_cooperative_group(CudaKernel& kernel);
  std::string group_partial(CudaKernel& kernel, const CudaReduction& reduction);

  const Program& program() const { return plan_.program; }
  void fuse_reductions();
  CudaReduction reduction_of(const Stage& stage) const;
  std::string partial_name(const CudaReduction& reduction) const;

  const Schedule& plan_;
  const Nest& nest_;
  const CudaVariant& variant_;
  const GpuFacts& facts_;
  CudaModule& module_;
  std::vector<Pass> passes_;
  /// Reductions that are fused with others, in one walk.
  std::map<const Stage*, const Stage*> companions_;
  KernelPlan kernel_plan_;
  TileReason tile_reason_;
  bool wide_ = false;
  bool ragged_ = false;  ///< some threads have no point: `inside` says which
  std::string count_name_;
};

/// What has to be computed for a stage.
std::vector<ExprId> cuda_roots(const Pass& pass);

}  // namespace weft
