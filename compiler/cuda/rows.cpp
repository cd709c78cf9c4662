// Row and column reductions: the passes over a point's inner elements, and how
// the threads that share a point combine their partials.
#include <algorithm>

#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

std::string joined(const std::vector<std::string>& conditions) {
  std::string all;
  for (const std::string& one : conditions) {
    all += (all.empty() ? "" : " && ") + one;
  }
  return all.empty() ? "" : "if (" + all + ") ";
}

}  // namespace

void CudaNest::print_rows() {
  CudaKernel kernel(program(), module_, shape_.lane, shape_.lanes, wide_);
  for (const Pass& pass : passes_) kernel.expect_inner(pass.inner);
  if (shape_.shifted) kernel.set_shifted(row_end());
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
  if (shape_.teams > 0) kernel.out().close();
  // A block must not exit while others may write into its shared memory.
  if (shape_.combine == Combine::cluster) kernel.out().line("sync_cluster();");
  kernel.finish(launch());
}

CudaLaunch CudaNest::launch() const {
  CudaLaunch launch;
  const std::int64_t vectors =
      shape_.columns ? shape_.points / shape_.lanes : shape_.points;
  const std::int64_t groups =
      shape_.teams > 0 ? shape_.teams : ceil_div(vectors, shape_.across);
  launch.blocks = groups * shape_.blocks;
  launch.threads = shape_.threads;
  launch.blocks_per_sm = shape_.blocks_per_sm;
  if (shape_.combine == Combine::cluster) {
    launch.cluster = static_cast<int>(shape_.blocks);
  }
  launch.cooperative = shape_.combine == Combine::grid;
  launch.shared_bytes = ring_bytes();
  return launch;
}

void CudaNest::open_points(CudaKernel& kernel) {
  Writer& out = kernel.out();
  const std::string place = "const " + kernel.place_type() + " ";
  const std::string across = text(shape_.across);
  std::string group = "blockIdx.x";
  if (shape_.blocks > 1) {
    out.line("const int rank = blockIdx.x % " + text(shape_.blocks) + ";");
    out.line("const int group = blockIdx.x / " + text(shape_.blocks) + ";");
    group = "group";
  }
  std::string thread = "threadIdx.x";
  if (shape_.across > 1) {
    thread += (shape_.columns ? " / " : " % ") +
              text(shape_.columns ? shape_.across : shape_.along);
  }
  out.line("const int t = " + thread + ";");
  if (shape_.combine == Combine::cluster) {
    kernel.need("cluster");
    out.line("int parity = 0;");
    out.line("sync_cluster();");
  }
  if (shape_.combine == Combine::grid) open_team(kernel);
  if (shape_.persistence == Persistence::ring) declare_ring(kernel);
  if (shape_.teams > 0) {
    out.open("for (" + kernel.place_type() + " p = " + group + "; p < " +
             text(shape_.points) + "; p += " + text(shape_.teams) + ")");
  } else if (shape_.columns) {
    const std::string of = text(shape_.lanes);
    out.line(place + "point = ((" + kernel.place_type() + ")" + group + " * " +
             across + " + threadIdx.x % " + across + ") * " + of + ";");
  } else if (shape_.across > 1) {
    out.line(place + "point = (" + kernel.place_type() + ")" + group + " * " +
             across + " + threadIdx.x / " + text(shape_.along) + ";");
  } else {
    out.line(place + "p = " + group + ";");
  }
  const bool loose = shape_.teams == 0 && (shape_.columns || shape_.across > 1);
  if (loose) {
    const std::int64_t unit =
        shape_.across * (shape_.columns ? shape_.lanes : std::int64_t{1});
    ragged_ = shape_.points % unit != 0;
    if (ragged_) {
      // All threads take part in folds.
      out.line("const bool inside = point < " + text(shape_.points) + ";");
      out.line(place + "p = inside ? point : 0;");
    } else {
      out.line(place + "p = point;");
    }
  }
  kernel.declare(nest_.outer, "p");
  declare_shift(kernel);
}

std::string CudaNest::if_leader() const {
  std::vector<std::string> conditions;
  if (ragged_) conditions.push_back("inside");
  if (shape_.along > 1) conditions.push_back("t == 0");
  if (shape_.blocks > 1 && shape_.combine != Combine::parts) {
    conditions.push_back("rank == 0");
  }
  return joined(conditions);
}

std::int64_t CudaNest::steps_of(const Pass& pass) const {
  const std::int64_t unit =
      shape_.blocks * shape_.along * (shape_.columns ? 1 : shape_.lanes);
  const std::int64_t more = shape_.shifted ? shape_.lanes - 1 : 0;
  return ceil_div(extent_of(pass.inner) + more, unit);
}

void CudaNest::declare_place(CudaKernel& kernel, const std::string& step) {
  const std::string type = row_type();
  std::string at = "(" + type + ")" + step;
  if (shape_.blocks > 1) {
    at = "(" + at + " * " + text(shape_.blocks) + " + rank)";
  }
  at += " * " + text(shape_.along) + " + t";
  if (!shape_.columns && shape_.lanes > 1) {
    at = "(" + at + ") * " + text(shape_.lanes);
  }
  if (shape_.shifted) at += " - shift";
  kernel.out().line("const " + type + " r = " + at + ";");
}

// The type of places in a row and behind its end: 64-bit arithmetic takes
// several times as long, and each vector needs some.
std::string CudaNest::row_type() const {
  const std::int64_t step =
      shape_.blocks * shape_.along * (shape_.columns ? 1 : shape_.lanes);
  return shape_.row + step < INT32_MAX ? "int" : "long long";
}

std::string CudaNest::row_end() const {
  return "(" + row_type() + ")" + text(shape_.row);
}

std::string CudaNest::in_row(std::int64_t elements) const {
  const std::string behind = "r < " + text(elements);
  return shape_.shifted ? "r > -" + text(shape_.lanes) + " && " + behind
                        : behind;
}

// Distance of the row's first element from the aligned place before it.
void CudaNest::declare_shift(CudaKernel& kernel) {
  if (!shape_.shifted) return;
  kernel.out().line("const int shift = (unsigned)(" +
                    kernel.index(shape_.row_begin) + ") % " +
                    text(shape_.lanes) + ";");
}

bool CudaNest::is_ragged(const Pass& pass) const {
  if (shape_.shifted) return true;
  const std::int64_t unit =
      shape_.blocks * shape_.along * (shape_.columns ? 1 : shape_.lanes);
  return extent_of(pass.inner) % unit != 0;
}

void CudaNest::print_pass(CudaKernel& kernel, const Pass& pass) {
  std::vector<CudaFold> folds;
  for (const Stage* stage : pass.folding()) folds.push_back(fold_of(*stage));
  kernel.compute(cuda_roots(pass), true);
  for (const CudaFold& fold : folds) fold.declare(kernel);
  print_steps(kernel, pass, folds);
  for (const CudaFold& fold : folds) conclude(kernel, fold);
}

void CudaNest::print_steps(CudaKernel& kernel, const Pass& pass,
                           const std::vector<CudaFold>& folds) {
  Writer& out = kernel.out();
  const bool persistent = is_persistent(pass);
  const bool ring = persistent && shape_.persistence == Persistence::ring;
  const std::string unroll = " " + text(variant_.unroll);
  if (persistent && !ring) read_persistent(kernel, pass);
  if (ring) out.line("slot = base;");
  const std::int64_t steps = steps_of(pass);
  out.line("#pragma unroll" + (persistent || steps <= 16 ? "" : unroll));
  out.open("for (int u = 0; u < " + text(steps) + "; ++u)");
  if (ring && is_first_persistent(pass)) {
    out.line("wait_copies(" + text(shape_.slots - 1) + " - u);");
  }
  declare_place(kernel, "u");
  if (is_ragged(pass)) {
    out.open("if (" + in_row(extent_of(pass.inner)) + ")");
  }
  kernel.declare(pass.inner, "r");
  print_tile(kernel, pass, folds, persistent);
  if (is_ragged(pass)) out.close();
  if (ring) {
    if (is_last_persistent(pass)) prefetch_next(kernel);
    out.line("slot = slot + 1 == " + text(shape_.slots) + " ? 0 : slot + 1;");
  }
  out.close();
  if (ring && is_first_persistent(pass)) prefetch_next_to_cache(kernel);
  if (ring && is_last_persistent(pass)) out.line("base = slot;");
}

// One step of a pass: its folds take it, its other stages store it.
void CudaNest::print_tile(CudaKernel& kernel, const Pass& pass,
                          const std::vector<CudaFold>& folds, bool persistent) {
  const auto names = kernel.names();
  // A pass with other loops reads again what is persistent in these.
  persistent ? find_persistent(kernel) : kernel.forget_persistent();
  kernel.compute(cuda_roots(pass), false);
  std::vector<const Stage*> stores;
  for (const Stage* stage : pass.stages) {
    if (stage->stores()) stores.push_back(stage);
  }
  declare_stores(kernel, stores);
  for (const CudaFold& fold : folds) fold.open_vector(kernel);
  kernel.open_lanes();
  kernel.compute_lanes(cuda_roots(pass));
  for (const CudaFold& fold : folds) fold.step(kernel);
  store_lanes(kernel, stores, ragged_ ? "if (inside) " : "");
  kernel.close_lanes();
  for (const CudaFold& fold : folds) fold.close_vector(kernel);
  store_vectors(kernel, stores, ragged_ ? "if (inside) " : "");
  kernel.set_names(names);
}

void CudaNest::conclude(CudaKernel& kernel, const CudaFold& fold) {
  Writer& out = kernel.out();
  const std::string of = fold.reducer();
  const std::string lanes = text(shape_.lanes);
  const std::string threads = text(shape_.threads);
  if (shape_.columns) {
    if (shape_.along > 1) {
      kernel.need("columns");
      out.line("fold_down<" + of + ", " + lanes + ", " + text(shape_.along) +
               ", " + text(shape_.across) + ">(" + fold.lanes() + ");");
    }
    if (shape_.combine == Combine::parts) return store_partial(kernel, fold);
    fold.conclude(kernel, fold.lanes() + kernel.at_lane(), shape_.lanes > 1);
    return spill_all(kernel, fold);
  }
  std::string value = fold.closed(kernel);
  if (shape_.combine == Combine::cluster) {
    value = "fold_cluster<" + of + ", " + threads + ", " + text(shape_.blocks) +
            ">(" + value + ", rank, parity)";
  } else if (shape_.combine == Combine::grid) {
    value = "fold_team<" + of + ", " + threads + ", " + text(shape_.blocks) +
            ">(" + value + ", team, " + team_partial(kernel, fold) + ")";
  } else if (shape_.across > 1 && shape_.along > 1) {
    value = "fold_warp<" + of + ", " + text(shape_.along) + ">(" + value + ")";
  } else if (shape_.across == 1) {
    kernel.need("block");
    value = "fold_block<" + of + ", " + threads + ">(" + value + ")";
  }
  out.line("const " + fold.value_type() + " " + fold.whole() + " = " + value +
           ";");
  if (shape_.combine == Combine::parts) return store_partial(kernel, fold);
  fold.conclude(kernel, fold.whole(), false);
  spill_all(kernel, fold);
}

}  // namespace weft
