// Row and column reductions: the passes over a point's inner elements, and how
// the threads that share a point combine their partials.
#include <algorithm>

#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

std::string joined(const std::vector<std::string>& conditions) {
  std::string all;
  for (const std::string& condition : conditions) {
    all += (all.empty() ? "" : " && ") + condition;
  }
  return all.empty() ? "" : "if (" + all + ") ";
}

}  // namespace

void CudaNest::print_rows() {
  CudaKernel kernel(program(), module_, kernel_plan_.lane,
                    kernel_plan_.vector_width, wide_);
  for (const Pass& pass : passes_) kernel.expect_inner(pass.inner);
  if (kernel_plan_.shifted) kernel.set_shifted(row_end());
  open_points(kernel);
  for (const Pass& pass : passes_) {
    if (pass.inner.empty()) {
      print_points(kernel, pass);
    } else if (pass.scan() != nullptr) {
      print_scan(kernel, pass);
    } else {
      print_pass(kernel, pass);
    }
  }
  if (kernel_plan_.cooperative_groups > 0) kernel.out().close();
  // A block must not exit while others may write into its shared memory.
  if (kernel_plan_.combine == Combine::cluster)
    kernel.out().line("sync_cluster();");
  kernel.finish(launch());
}

CudaLaunch CudaNest::launch() const {
  CudaLaunch launch;
  const std::int64_t vectors =
      kernel_plan_.outer_reduction
          ? kernel_plan_.points / kernel_plan_.vector_width
          : kernel_plan_.points;
  const std::int64_t groups =
      kernel_plan_.cooperative_groups > 0
          ? kernel_plan_.cooperative_groups
          : ceil_div(vectors, kernel_plan_.points_per_block);
  launch.blocks = groups * kernel_plan_.blocks;
  launch.threads = kernel_plan_.threads;
  launch.blocks_per_sm = kernel_plan_.blocks_per_sm;
  if (kernel_plan_.combine == Combine::cluster) {
    launch.cluster = static_cast<int>(kernel_plan_.blocks);
  }
  launch.cooperative = kernel_plan_.combine == Combine::grid;
  launch.shared_bytes = ring_bytes();
  return launch;
}

void CudaNest::open_points(CudaKernel& kernel) {
  Writer& out = kernel.out();
  const std::string constant = "const " + kernel.index_type() + " ";
  const std::string across = text(kernel_plan_.points_per_block);
  std::string group = "blockIdx.x";
  if (kernel_plan_.blocks > 1) {
    out.line("const int rank = blockIdx.x % " + text(kernel_plan_.blocks) +
             ";");
    out.line("const int group = blockIdx.x / " + text(kernel_plan_.blocks) +
             ";");
    group = "group";
  }
  std::string thread = "threadIdx.x";
  if (kernel_plan_.points_per_block > 1) {
    thread +=
        (kernel_plan_.outer_reduction ? " / " : " % ") +
        text(kernel_plan_.outer_reduction ? kernel_plan_.points_per_block
                                          : kernel_plan_.threads_per_point);
  }
  out.line("const int t = " + thread + ";");
  if (kernel_plan_.combine == Combine::cluster) {
    kernel.need("cluster");
    out.line("int parity = 0;");
    out.line("sync_cluster();");
  }
  if (kernel_plan_.combine == Combine::grid) open_cooperative_group(kernel);
  if (kernel_plan_.persistence == Persistence::ring) declare_ring(kernel);
  if (kernel_plan_.cooperative_groups > 0) {
    out.open("for (" + kernel.index_type() + " p = " + group + "; p < " +
             text(kernel_plan_.points) +
             "; p += " + text(kernel_plan_.cooperative_groups) + ")");
  } else if (kernel_plan_.outer_reduction) {
    const std::string of = text(kernel_plan_.vector_width);
    out.line(constant + "point = ((" + kernel.index_type() + ")" + group +
             " * " + across + " + threadIdx.x % " + across + ") * " + of + ";");
  } else if (kernel_plan_.points_per_block > 1) {
    out.line(constant + "point = (" + kernel.index_type() + ")" + group +
             " * " + across + " + threadIdx.x / " +
             text(kernel_plan_.threads_per_point) + ";");
  } else {
    out.line(constant + "p = " + group + ";");
  }
  const bool loose =
      kernel_plan_.cooperative_groups == 0 &&
      (kernel_plan_.outer_reduction || kernel_plan_.points_per_block > 1);
  if (loose) {
    const std::int64_t unit =
        kernel_plan_.points_per_block * (kernel_plan_.outer_reduction
                                             ? kernel_plan_.vector_width
                                             : std::int64_t{1});
    ragged_ = kernel_plan_.points % unit != 0;
    if (ragged_) {
      // All threads take part in reductions.
      out.line("const bool inside = point < " + text(kernel_plan_.points) +
               ";");
      out.line(constant + "p = inside ? point : 0;");
    } else {
      out.line(constant + "p = point;");
    }
  }
  kernel.declare(nest_.outer, "p");
  declare_shift(kernel);
}

std::string CudaNest::if_leader() const {
  std::vector<std::string> conditions;
  if (ragged_) conditions.push_back("inside");
  if (kernel_plan_.threads_per_point > 1) conditions.push_back("t == 0");
  if (kernel_plan_.blocks > 1 && kernel_plan_.combine != Combine::parts) {
    conditions.push_back("rank == 0");
  }
  return joined(conditions);
}

std::int64_t CudaNest::steps_of(const Pass& pass) const {
  const std::int64_t unit =
      kernel_plan_.blocks * kernel_plan_.threads_per_point *
      (kernel_plan_.outer_reduction ? 1 : kernel_plan_.vector_width);
  const std::int64_t more =
      kernel_plan_.shifted ? kernel_plan_.vector_width - 1 : 0;
  return ceil_div(extent_of(pass.inner) + more, unit);
}

void CudaNest::declare_row_index(CudaKernel& kernel, const std::string& step) {
  const std::string type = row_type();
  std::string at = "(" + type + ")" + step;
  if (kernel_plan_.blocks > 1) {
    at = "(" + at + " * " + text(kernel_plan_.blocks) + " + rank)";
  }
  at += " * " + text(kernel_plan_.threads_per_point) + " + t";
  if (!kernel_plan_.outer_reduction && kernel_plan_.vector_width > 1) {
    at = "(" + at + ") * " + text(kernel_plan_.vector_width);
  }
  if (kernel_plan_.shifted) at += " - shift";
  kernel.out().line("const " + type + " r = " + at + ";");
}

// The type of places in a row and behind its end: 64-bit arithmetic takes
// several times as long, and each vector needs some.
std::string CudaNest::row_type() const {
  const std::int64_t step =
      kernel_plan_.blocks * kernel_plan_.threads_per_point *
      (kernel_plan_.outer_reduction ? 1 : kernel_plan_.vector_width);
  return kernel_plan_.row + step < INT32_MAX ? "int" : "long long";
}

std::string CudaNest::row_end() const {
  return "(" + row_type() + ")" + text(kernel_plan_.row);
}

std::string CudaNest::in_row(std::int64_t elements) const {
  const std::string behind = "r < " + text(elements);
  return kernel_plan_.shifted
             ? "r > -" + text(kernel_plan_.vector_width) + " && " + behind
             : behind;
}

// Distance of the row's first element from the aligned place before it.
void CudaNest::declare_shift(CudaKernel& kernel) {
  if (!kernel_plan_.shifted) return;
  kernel.out().line("const int shift = (unsigned)(" +
                    kernel.index(kernel_plan_.row_begin) + ") % " +
                    text(kernel_plan_.vector_width) + ";");
}

bool CudaNest::is_ragged(const Pass& pass) const {
  if (kernel_plan_.shifted) return true;
  const std::int64_t unit =
      kernel_plan_.blocks * kernel_plan_.threads_per_point *
      (kernel_plan_.outer_reduction ? 1 : kernel_plan_.vector_width);
  return extent_of(pass.inner) % unit != 0;
}

void CudaNest::print_pass(CudaKernel& kernel, const Pass& pass) {
  std::vector<CudaReduction> reductions;
  for (const Stage* stage : pass.reductions())
    reductions.push_back(reduction_of(*stage));
  kernel.compute(cuda_roots(pass), true);
  for (const CudaReduction& reduction : reductions) reduction.declare(kernel);
  print_steps(kernel, pass, reductions);
  for (const CudaReduction& reduction : reductions) conclude(kernel, reduction);
}

void CudaNest::print_steps(CudaKernel& kernel, const Pass& pass,
                           const std::vector<CudaReduction>& reductions) {
  Writer& out = kernel.out();
  const bool persistent = is_persistent(pass);
  const bool ring = persistent && kernel_plan_.persistence == Persistence::ring;
  const std::string unroll = " " + text(variant_.unroll);
  if (persistent && !ring) read_persistent(kernel, pass);
  if (ring) out.line("slot = base;");
  const std::int64_t steps = steps_of(pass);
  out.line("#pragma unroll" + (persistent || steps <= 16 ? "" : unroll));
  out.open("for (int u = 0; u < " + text(steps) + "; ++u)");
  if (ring && is_first_persistent(pass)) {
    out.line("wait_copies(" + text(kernel_plan_.slots - 1) + " - u);");
  }
  declare_row_index(kernel, "u");
  if (is_ragged(pass)) {
    out.open("if (" + in_row(extent_of(pass.inner)) + ")");
  }
  kernel.declare(pass.inner, "r");
  print_tile(kernel, pass, reductions, persistent);
  if (is_ragged(pass)) out.close();
  if (ring) {
    if (is_last_persistent(pass)) prefetch_next(kernel);
    out.line("slot = slot + 1 == " + text(kernel_plan_.slots) +
             " ? 0 : slot + 1;");
  }
  out.close();
  if (ring && is_first_persistent(pass)) prefetch_next_to_cache(kernel);
  if (ring && is_last_persistent(pass)) out.line("base = slot;");
}

// One step of a pass: its reductions take it, its other stages store it.
void CudaNest::print_tile(CudaKernel& kernel, const Pass& pass,
                          const std::vector<CudaReduction>& reductions,
                          bool persistent) {
  const auto names = kernel.names();
  // A pass with other loops reads again what is persistent in these.
  persistent ? find_persistent(kernel) : kernel.forget_persistent();
  kernel.compute(cuda_roots(pass), false);
  std::vector<const Stage*> stores;
  for (const Stage* stage : pass.stages) {
    if (stage->is_store()) stores.push_back(stage);
  }
  declare_stores(kernel, stores);
  for (const CudaReduction& reduction : reductions)
    reduction.open_vector(kernel);
  kernel.open_lanes();
  kernel.compute_lanes(cuda_roots(pass));
  for (const CudaReduction& reduction : reductions) reduction.step(kernel);
  store_lanes(kernel, stores, ragged_ ? "if (inside) " : "");
  kernel.close_lanes();
  for (const CudaReduction& reduction : reductions)
    reduction.close_vector(kernel);
  store_vectors(kernel, stores, ragged_ ? "if (inside) " : "");
  kernel.set_names(names);
}

void CudaNest::conclude(CudaKernel& kernel, const CudaReduction& reduction) {
  Writer& out = kernel.out();
  const std::string of = reduction.reducer();
  const std::string width = text(kernel_plan_.vector_width);
  const std::string threads = text(kernel_plan_.threads);
  if (kernel_plan_.outer_reduction) {
    if (kernel_plan_.threads_per_point > 1) {
      kernel.need("columns");
      out.line("fold_down<" + of + ", " + width + ", " +
               text(kernel_plan_.threads_per_point) + ", " +
               text(kernel_plan_.points_per_block) + ">(" +
               reduction.accumulators() + ");");
    }
    if (kernel_plan_.combine == Combine::parts)
      return store_partial(kernel, reduction);
    reduction.conclude(kernel, reduction.accumulators() + kernel.at_lane(),
                       kernel_plan_.vector_width > 1);
    return spill_all(kernel, reduction);
  }
  std::string value = reduction.closed(kernel);
  if (kernel_plan_.combine == Combine::cluster) {
    value = "fold_cluster<" + of + ", " + threads + ", " +
            text(kernel_plan_.blocks) + ">(" + value + ", rank, parity)";
  } else if (kernel_plan_.combine == Combine::grid) {
    value = "fold_team<" + of + ", " + threads + ", " +
            text(kernel_plan_.blocks) + ">(" + value + ", team, " +
            group_partial(kernel, reduction) + ")";
  } else if (kernel_plan_.points_per_block > 1 &&
             kernel_plan_.threads_per_point > 1) {
    value = "fold_warp<" + of + ", " + text(kernel_plan_.threads_per_point) +
            ">(" + value + ")";
  } else if (kernel_plan_.points_per_block == 1) {
    kernel.need("block");
    value = "fold_block<" + of + ", " + threads + ">(" + value + ")";
  }
  out.line("const " + reduction.value_type() + " " + reduction.whole() + " = " +
           value + ";");
  if (kernel_plan_.combine == Combine::parts)
    return store_partial(kernel, reduction);
  reduction.conclude(kernel, reduction.whole(), false);
  spill_all(kernel, reduction);
}

}  // namespace weft
