#include "compiler/cuda/launch_planner.hpp"

#include <algorithm>
#include <set>

#include "compiler/cuda/scalar.hpp"
#include "compiler/cuda/vector_width.hpp"
#include "compiler/loops/integers.hpp"

namespace weft {
namespace {

/// cp.async.wait_group takes a constant: as many cases are written out.
constexpr std::int64_t kSlotsMax = 31;
/// Shared memory that reductions may need in addition to a ring.
constexpr std::int64_t kReductionBytes = 3 << 10;
/// … and what a stream needs: its reductions, and barriers.
constexpr std::int64_t kStreamBytes = 8 << 10;
/// Shared memory that the driver reserves of each block.
constexpr std::int64_t kDriverBytes = 1 << 10;

bool is_walked(const Pass& pass) { return !pass.inner.empty(); }

class LaunchPlanner {
 public:
  LaunchPlanner(const Schedule& plan, const Nest& nest,
                const std::vector<Pass>& passes, const CudaVariant& variant,
                const GpuFacts& facts)
      : plan_(plan),
        nest_(nest),
        passes_(passes),
        variant_(variant),
        facts_(facts) {}

  KernelPlan plan() {
    out_.outer_reduction = nest_.outer_reduction;
    out_.points = extent_of(nest_.outer);
    for (const Pass& pass : passes_) {
      out_.row = std::max(out_.row, extent_of(pass.inner));
      out_.scans = out_.scans || pass.scan() != nullptr;
    }
    choose_vector_width();
    find_persistent();
    if (out_.outer_reduction) {
      plan_columns();
    } else if (out_.scans) {
      plan_scan_rows();
    } else {
      plan_rows();
    }
    return std::move(out_);
  }

 private:
  const Program& program() const { return plan_.program; }
  const CudaChoices& choices() const { return facts_.choices.cuda; }

  void choose_vector_width() {
    const LoopVar* lane = nullptr;
    if (out_.outer_reduction) {
      lane = &nest_.outer.back();
    } else {
      for (const Pass& pass : passes_) {
        if (extent_of(pass.inner) != out_.row || !is_walked(pass)) continue;
        lane = &pass.inner.back();
        break;
      }
    }
    if (lane == nullptr) return;
    out_.vector_width = cuda_vector_width(program(), passes_, *lane);
    // In every pass the lanes must count that variable, or all must be one.
    for (const Pass& pass : passes_) {
      const bool other = !out_.outer_reduction && is_walked(pass) &&
                         pass.inner.back() != *lane;
      if (other) out_.vector_width = 1;
    }
    if (out_.vector_width > 1) out_.lane = lane->id;
    if (out_.vector_width == 1 && !out_.outer_reduction && !out_.scans)
      try_shift(*lane);
  }

  void try_shift(LoopVar lane) {
    const auto begin = cuda_row_begin(program(), passes_, lane, choices().rows);
    if (!begin) return;
    out_.shifted = true;
    out_.row_begin = *begin;
    out_.vector_width = kCudaShiftedVectorWidth;
    out_.lane = lane.id;
  }

  // What more than one pass reads, in the same places.
  void find_persistent() {
    std::set<ExprId> seen;
    if (out_.scans) return;
    for (const Pass& pass : passes_) {
      if (!is_walked(pass) || extent_of(pass.inner) != out_.row) continue;
      if (out_.persistent_inner.empty()) out_.persistent_inner = pass.inner;
      if (pass.inner != out_.persistent_inner) continue;
      for (const ExprId id : cuda_loads(program(), pass)) {
        if (!moves_with_row(id)) continue;
        const bool again = !seen.insert(id).second;
        if (again &&
            std::ranges::find(out_.persistent, id) == out_.persistent.end()) {
          out_.persistent.push_back(id);
        }
      }
    }
  }

  bool moves_with_row(ExprId id) const {
    const Scalar& node = program().arena[id];
    if (node.guarded || node.is_indirect) return false;
    const Index& index = node.index[0];
    bool moves = false;
    for (const LoopVar& v : out_.persistent_inner)
      moves = moves || index.uses(v.id);
    if (out_.vector_width == 1 || out_.shifted) return moves;
    return moves && step_along(index, out_.lane, out_.vector_width) == 1 &&
           is_aligned(index, out_.lane, out_.vector_width);
  }

  std::int64_t vectors() const {
    const std::int64_t more = out_.shifted ? out_.vector_width - 1 : 0;
    return ceil_div(out_.row + more, out_.vector_width);
  }

  /// Bytes of a thread's persistent arrays for each of its vectors.
  std::int64_t persistent_bytes() const {
    std::int64_t bytes = 0;
    for (const ExprId id : out_.persistent) {
      bytes += out_.vector_width * element_bytes(program().arena[id].dtype);
    }
    return bytes;
  }

  bool can_ring() const {
    for (const ExprId id : out_.persistent) {
      const auto bytes =
          out_.vector_width * element_bytes(program().arena[id].dtype);
      if (bytes != 4 && bytes != 8 && bytes != 16) return false;
    }
    return variant_.rings && !out_.persistent.empty();
  }

  std::string row_text() const {
    return "a row has " + std::to_string(out_.row) + " elements";
  }

  void set_block(std::int64_t threads) {
    out_.threads = static_cast<int>(threads);
    out_.threads_per_point = out_.threads;
    out_.points_per_block = 1;
  }

  void plan_rows() {
    if (nest_.split) return split_rows();
    const std::int64_t whole = vectors();
    if (whole <= 32 * variant_.persistent_vectors &&
        threads_of_short_row() <= 32) {
      out_.threads_per_point = static_cast<int>(threads_of_short_row());
      out_.threads = 256;
      out_.points_per_block = out_.threads / out_.threads_per_point;
      out_.steps = ceil_div(whole, out_.threads_per_point);
      out_.reason = row_text() +
                    ": short enough for a part of a warp, so a "
                    "block has several rows";
      if (!out_.persistent.empty()) out_.persistence = Persistence::registers;
      return;
    }
    if (out_.row <= variant_.register_row) {
      const std::int64_t threads =
          32 * ceil_div(ceil_div(whole, variant_.persistent_vectors), 32);
      set_block(std::clamp<std::int64_t>(threads, 64, 1024));
      out_.steps = ceil_div(whole, out_.threads);
      out_.reason = row_text() + ": it fits into one block's registers (" +
                    std::to_string(variant_.register_row) +
                    " elements in this variant)";
      if (!out_.persistent.empty()) out_.persistence = Persistence::registers;
      return;
    }
    const std::string too_long =
        row_text() + ": more than one block's registers hold, ";
    if (can_stream() && stream()) {
      out_.reason = too_long +
                    "and one pass reduces what the next stores, so warps "
                    "specialise in reading, reducing and storing";
    } else if (can_ring() && ring()) {
      out_.reason = too_long + "so it stays in the shared memory of " +
                    std::to_string(out_.blocks) + " blocks";
    } else {
      walk();
      out_.reason = too_long +
                    "and it does not fit into shared memory or is "
                    "read once, so each pass reads it from memory";
    }
  }

  /// Threads that share a short row: about four vectors each, or as many as fit
  /// into registers where that keeps the row within a warp.
  std::int64_t threads_of_short_row() const {
    const int each = std::min(choices().rows.short_row_vectors_per_thread,
                              variant_.persistent_vectors);
    const std::int64_t threads = power_of_two(ceil_div(vectors(), each));
    return vectors() <= 32 * variant_.persistent_vectors
               ? std::min<std::int64_t>(threads, 32)
               : threads;
  }

  // The row is persistent in the shared memory of as few blocks as have room
  // for it, or as many as keep all multiprocessors busy.
  bool ring() {
    const std::int64_t half =
        facts_.shared_bytes / 2 - kReductionBytes - kDriverBytes;
    const std::int64_t whole = facts_.shared_bytes - kReductionBytes;
    const std::int64_t each = persistent_bytes();
    const std::int64_t bytes = vectors() * each;
    std::int64_t resident = facts_.sms;
    std::int64_t free_bytes = whole;
    set_block(variant_.ring_threads);
    if (bytes <= half && out_.points >= 4 * facts_.sms) {
      set_block(512);
      out_.blocks_per_sm = 2;
      resident = std::int64_t{2} * facts_.sms;
      free_bytes = half;
    }
    const std::int64_t block_max =
        free_bytes / (out_.threads * each) * out_.threads;
    if (block_max == 0) return false;
    std::int64_t blocks = ceil_div(vectors(), block_max);
    if (blocks > 1) {
      blocks = std::max<std::int64_t>(blocks, variant_.cluster_min);
    }
    while (blocks < 16 && out_.points * blocks * 2 <= resident &&
           vectors() >= 2 * blocks * out_.threads) {
      blocks *= 2;
    }
    if (blocks > resident) return false;
    const bool idle =
        out_.points * 32 <= resident && vectors() >= 32 * out_.threads;
    if (blocks > 16 || (blocks == 16 && idle) ||
        (blocks > 1 && !(variant_.clusters && facts_.clusters))) {
      grid_of(blocks, resident);
    } else {
      cluster_of(static_cast<std::int64_t>(power_of_two(blocks)), resident);
    }
    out_.steps = ceil_div(vectors(), out_.blocks * out_.threads);
    out_.slots = std::min(
        {free_bytes / (out_.threads * each), kSlotsMax, 4 * out_.steps});
    if (out_.slots < out_.steps) return false;
    out_.persistence = Persistence::ring;
    return true;
  }

  // Rows that one pass reduces and the next one stores.
  bool can_stream() const {
    if (!variant_.streams || !facts_.clusters || out_.shifted ||
        out_.persistent.empty() || !reduces_first()) {
      return false;
    }
    int walks = 0;
    for (const Pass& pass : passes_) {
      if (!is_walked(pass)) continue;
      ++walks;
      if (pass.inner != out_.persistent_inner ||
          pass.has_reductions() != (walks == 1)) {
        return false;
      }
    }
    return walks == 2 && std::ranges::all_of(out_.persistent, [&](ExprId id) {
             return is_one_piece(program().arena[id].index[0],
                                 out_.persistent_inner, 1) &&
                    out_.vector_width *
                            element_bytes(program().arena[id].dtype) ==
                        16;
           });
  }

  bool reduces_first() const {
    const Pass& pass = passes_.front();
    return is_walked(pass) && pass.stages.size() == 1 && pass.has_reductions();
  }

  // Whether what those variables count is one piece of memory, in steps of
  // `stride`.
  static bool is_one_piece(const Index& index,
                           const std::vector<LoopVar>& inner,
                           std::int64_t stride) {
    for (std::size_t i = inner.size(); i-- > 0;) {
      const LoopVar& v = inner[i];
      if (index.hides(v.id) || index.coefficient(v.id) != stride) return false;
      stride *= v.extent;
    }
    return true;
  }

  // Folded in one walk that reads nothing but matrices with contiguous rows.
  bool plan_streamed_columns() {
    const LoopVar column = nest_.outer.back();
    const Pass& pass = passes_.front();
    if (!variant_.streams || !facts_.clusters || nest_.split ||
        out_.vector_width > 1 || !reduces_first()) {
      return false;
    }
    for (const Pass& other : passes_) {
      if (&other != &pass && is_walked(other)) return false;
    }
    const std::vector<ExprId> loads = cuda_loads(program(), pass);
    if (loads.size() != 1 || !is_matrix(loads[0], column)) return false;
    const std::int64_t row =
        column.extent * element_bytes(program().arena[loads[0]].dtype);
    const std::int64_t free_bytes = facts_.shared_bytes - kStreamBytes;
    const std::int64_t matrices = out_.points / column.extent;
    const std::int64_t waves = ceil_div(matrices, facts_.sms);
    // So many rows begin and end at multiples of 16 bytes together.
    const std::int64_t unit = std::max<std::int64_t>(
        4, 16 / element_bytes(program().arena[loads[0]].dtype));
    const CudaStreamChoices& stream = choices().stream;
    out_.chunk = std::max(unit, stream.ahead_bytes / row / unit * unit);
    if (column.extent <= kCudaColumnThreads ||
        free_bytes / row < stream.column_chunks_min * out_.chunk ||
        static_cast<double>(matrices) <
            stream.busy_share_min * static_cast<double>(waves * facts_.sms)) {
      return false;
    }
    out_.persistent = loads;
    out_.reason =
        "whole matrices are contiguous and a block reduces one down its "
        "columns, so a warp streams its rows through shared memory";
    out_.persistence = Persistence::stream;
    out_.slots = free_bytes / (row * out_.chunk);
    out_.steps = ceil_div(out_.row, out_.chunk);
    out_.cooperative_groups = std::min<std::int64_t>(matrices, facts_.sms);
    out_.lane = column.id;
    out_.vector_width =
        static_cast<int>(ceil_div(column.extent, kCudaColumnThreads));
    out_.points_per_block = kCudaColumnThreads;
    out_.threads_per_point = 1;
    out_.threads = kCudaColumnThreads + 32;
    return true;
  }

  // Matrices begin at multiples of 16 bytes.
  bool is_matrix(ExprId id, LoopVar column) const {
    const Scalar& node = program().arena[id];
    const Index& index = node.index[0];
    if (node.guarded || node.is_indirect || !index.is_affine() ||
        index.coefficient(column.id) != 1) {
      return false;
    }
    if (!is_one_piece(index, passes_.front().inner, column.extent)) {
      return false;
    }
    const std::int64_t elements = out_.row * column.extent;
    const std::int64_t packed = 16 / element_bytes(node.dtype);
    bool aligned = index.offset() % packed == 0 && elements % packed == 0;
    for (const LoopVar& v : nest_.outer) {
      if (v == column) continue;
      aligned = aligned && index.coefficient(v.id) % packed == 0;
    }
    return aligned;
  }

  // Whether something else is read that is as long as a row, weights for one.
  bool reads_more() const {
    for (const Pass& pass : passes_) {
      for (const ExprId id : cuda_loads(program(), pass)) {
        const bool persistent =
            std::ranges::find(out_.persistent, id) != out_.persistent.end();
        const Index& index = program().arena[id].index[0];
        if (!persistent && step_along(index, out_.lane, out_.vector_width) != 0)
          return true;
      }
    }
    return false;
  }

  // A block's share of a row is small enough that further rows fit beside it
  // while it waits for the other blocks' partials; longer rows take all the
  // room.
  bool stream() {
    const std::int64_t whole = vectors();
    const std::int64_t free_bytes =
        (facts_.shared_bytes - kStreamBytes) / persistent_bytes();
    const CudaStreamChoices& stream = choices().stream;
    if (free_bytes < stream.chunks_min * kCudaStreamChunk) return false;
    // A maximum is mostly fused with softmax's exponentials, which need more
    // reduction warps and leave fewer registers for rows.
    const bool takes_exponentials =
        passes_.front().stages.front()->reduction == Reduction::max;
    std::int64_t blocks = ceil_div(
        whole,
        free_bytes / (takes_exponentials ? stream.rows_in_memory_of_exponentials
                                         : stream.rows_in_memory));
    if (blocks > facts_.sms) {
      // Where all blocks share a row, they should have several of them.
      blocks = whole * 5 <= facts_.sms * free_bytes * 2
                   ? facts_.sms
                   : ceil_div(whole * 8, free_bytes * 7);
    }
    if (blocks > facts_.sms) return false;
    const std::int64_t cooperative_groups =
        std::min(facts_.sms / blocks, out_.points);
    blocks = std::min(facts_.sms / cooperative_groups,
                      std::max(blocks, whole / (2 * kCudaStreamChunk)));
    // Weights come from memory again for each row, and nothing hides that.
    if (cooperative_groups == 1 && reads_more()) return false;
    const std::int64_t share = ceil_div(whole, blocks);
    const std::int64_t steps = ceil_div(share, kCudaStreamChunk);
    if (free_bytes / kCudaStreamChunk < steps) return false;
    out_.cooperative_groups = cooperative_groups;
    out_.blocks = blocks;
    out_.chunk = kCudaStreamChunk;
    out_.steps = steps;
    out_.slots = std::min(free_bytes / kCudaStreamChunk, 6 * steps);
    out_.register_chunks = std::min(
        steps, stream.prefetched_vectors / std::ssize(out_.persistent));
    out_.reduce_warps =
        takes_exponentials ? kCudaReduceWarpsOfExponentials : kCudaReduceWarps;
    // With more copies in flight reads become slower.
    out_.copies_in_flight = std::clamp<std::int64_t>(
        stream.ahead_bytes / (kCudaStreamChunk * persistent_bytes()), 2,
        out_.slots);
    // A block may be a ring and a row ahead of what it stores, and another one
    // as far ahead of that.
    out_.rows_in_flight = power_of_two(2 * ceil_div(out_.slots, steps) + 5);
    out_.persistence = Persistence::stream;
    out_.combine = Combine::grid;
    set_block(32 * (3 + out_.reduce_warps + kCudaStoreWarps));
    return true;
  }

  void cluster_of(std::int64_t blocks, std::int64_t resident) {
    out_.blocks = blocks;
    out_.combine = blocks > 1 ? Combine::cluster : Combine::block;
    out_.cooperative_groups = std::min(
        out_.points, std::max<std::int64_t>(1, clusters_of(blocks, resident)));
  }

  // A cluster stays within a group of multiprocessors, and not every group is
  // whole: the driver knows how many fit.
  std::int64_t clusters_of(std::int64_t blocks, std::int64_t resident) const {
    const auto probed = facts_.clusters_of.find(blocks);
    if (probed != facts_.clusters_of.end()) {
      return std::min(resident / blocks, out_.blocks_per_sm * probed->second);
    }
    std::int64_t usable_blocks = resident;
    if (blocks > 2) {
      usable_blocks -=
          out_.blocks_per_sm * facts_.sms / choices().rows.sms_per_lost_sm;
    }
    return usable_blocks / blocks;
  }

  void grid_of(std::int64_t blocks, std::int64_t resident) {
    out_.combine = Combine::grid;
    // Room for a part of the next row, where that costs few rows at a time.
    if (blocks <= 16) blocks += blocks / 4 + 1;
    out_.cooperative_groups =
        std::min(out_.points, std::max<std::int64_t>(1, resident / blocks));
    out_.blocks = resident / out_.cooperative_groups;
  }

  // Each pass reads the row again; where there are few rows, several blocks
  // have one.
  void walk() {
    const std::int64_t whole = vectors();
    set_block(std::clamp<std::int64_t>(32 * ceil_div(ceil_div(whole, 8), 32),
                                       128, 512));
    out_.blocks = 1;
    out_.blocks_per_sm = 1;
    out_.combine = Combine::block;
    out_.cooperative_groups = 0;
    out_.slots = 0;
    const std::int64_t wanted = choices().rows.walk_blocks_per_sm * facts_.sms;
    if (out_.points * 2 <= wanted && whole >= 4 * out_.threads) {
      const std::int64_t blocks =
          std::min(wanted / out_.points, whole / (2 * out_.threads));
      if (blocks > 1) {
        out_.combine = Combine::grid;
        out_.blocks_per_sm =
            static_cast<int>(choices().rows.walk_blocks_per_sm);
        out_.cooperative_groups = out_.points;
        out_.blocks = blocks;
      }
    }
    out_.steps = ceil_div(whole, out_.blocks * out_.threads);
  }

  void split_rows() {
    out_.combine = Combine::parts;
    out_.reason = std::to_string(out_.points) + " rows are too few for " +
                  std::to_string(facts_.sms) +
                  " multiprocessors, so blocks share each row and a second "
                  "kernel reduces their partials";
    set_block(512);
    const CudaRowChoices& rows = choices().rows;
    const std::int64_t wanted = rows.split_blocks_per_sm * facts_.sms;
    const std::int64_t most =
        ceil_div(vectors(), rows.split_vectors_min * out_.threads);
    out_.blocks = std::clamp<std::int64_t>(ceil_div(wanted, out_.points), 1,
                                           std::max<std::int64_t>(1, most));
    out_.steps = ceil_div(vectors(), out_.blocks * out_.threads);
  }

  void plan_scan_rows() {
    const std::int64_t threads = power_of_two(ceil_div(vectors(), 4));
    out_.reason = row_text() + ": a block scans one row";
    set_block(std::clamp<std::int64_t>(threads, 32, 512));
    out_.steps = ceil_div(vectors(), out_.threads);
  }

  // Coalesced column reduction: a point a lane; several threads share a point
  // where points are few.
  void plan_columns() {
    if (!out_.scans && plan_streamed_columns()) return;
    const std::int64_t wide = ceil_div(out_.points, out_.vector_width);
    out_.threads = 256;
    out_.threads_per_point = 1;
    if (!out_.scans) {
      const std::int64_t wanted = std::int64_t{facts_.sms} *
                                  facts_.resident_threads /
                                  choices().rows.resident_threads_divisor;
      while (out_.threads_per_point <
                 choices().rows.column_threads_per_point_max &&
             wide * out_.threads_per_point < wanted &&
             out_.threads_per_point * 4 <= out_.row) {
        out_.threads_per_point *= 2;
      }
      while (nest_.split && out_.threads_per_point < 8)
        out_.threads_per_point *= 2;
      const auto persistent = static_cast<std::int64_t>(out_.persistent.size());
      while (persistent > 0 && out_.threads_per_point < 32 &&
             ceil_div(out_.row, out_.threads_per_point) * persistent >
                 variant_.persistent_vectors) {
        out_.threads_per_point *= 2;
      }
    }
    out_.points_per_block = out_.threads / out_.threads_per_point;
    out_.reason =
        "neighbouring points are neighbours in memory, so threads lie along "
        "the points; " +
        std::to_string(out_.threads_per_point) + " share each of " +
        std::to_string(wide) + ", by what keeps the multiprocessors busy";
    if (nest_.split) {
      out_.combine = Combine::parts;
      const std::int64_t groups = ceil_div(wide, out_.points_per_block);
      const std::int64_t most = ceil_div(out_.row, 8 * out_.threads_per_point);
      out_.blocks = std::clamp<std::int64_t>(
          ceil_div(choices().rows.split_blocks_per_sm * facts_.sms, groups), 1,
          most);
    }
    out_.steps = ceil_div(out_.row, out_.blocks * out_.threads_per_point);
    const bool fits =
        out_.steps * static_cast<std::int64_t>(out_.persistent.size()) <=
        variant_.persistent_vectors;
    if (!out_.persistent.empty() && !nest_.split && fits) {
      out_.persistence = Persistence::registers;
    }
  }

  const Schedule& plan_;
  const Nest& nest_;
  const std::vector<Pass>& passes_;
  const CudaVariant& variant_;
  const GpuFacts& facts_;
  KernelPlan out_;
};

}  // namespace

KernelPlan plan_kernel(const Schedule& plan, const Nest& nest,
                       const std::vector<Pass>& passes,
                       const CudaVariant& variant, const GpuFacts& facts) {
  return LaunchPlanner(plan, nest, passes, variant, facts).plan();
}

std::int64_t cuda_row_max(const CudaVariant& variant, const GpuFacts& facts) {
  if (!variant.rings) return variant.register_row;
  return facts.sms * (facts.shared_bytes - kReductionBytes) / 4;
}

}  // namespace weft
