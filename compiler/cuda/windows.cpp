#include "compiler/cuda/windows.hpp"

#include <algorithm>

#include "compiler/cuda/vector_width.hpp"

namespace weft {
namespace {

constexpr std::int64_t kVectorWidth = kCudaWindowVectorWidth;

class Finding {
 public:
  Finding(const Schedule& plan, const Nest& nest,
          const std::vector<Pass>& passes, const GpuFacts& facts)
      : program_(plan.program),
        nest_(nest),
        reduction_(passes.front()),
        points_(passes.back()),
        facts_(facts),
        choices_(facts.choices.cuda.windows) {}

  std::optional<CudaWindows> found() {
    out_.lane = nest_.outer.back();
    find_tap();
    if (out_.lane.extent < kVectorWidth || !stores_rows() || !find_rows())
      return {};
    if (out_.lane.extent % kVectorWidth != 0 && reads(points_, out_.lane))
      return {};
    choose_together();
    const bool is_window = out_.tap.id >= 0 || out_.below.together > 1;
    const std::int64_t threads =
        extent_of(nest_.outer) / (kVectorWidth * out_.below.together);
    if (!is_window || written() > choices_.written_reads_max ||
        threads < choices_.threads_per_sm_min * facts_.sms ||
        packs_read() > choices_.reads_share_max * elements_read()) {
      return {};
    }
    out_.alike = are_alike();
    return std::move(out_);
  }

 private:
  std::vector<ExprId> loads_along(LoopVar variable) const {
    std::vector<ExprId> found;
    for (const ExprId id : cuda_loads(program_, reduction_)) {
      if (index_of(id).uses(variable.id)) found.push_back(id);
    }
    return found;
  }

  const Index& index_of(ExprId load) const {
    return program_.arena[load].index[0];
  }

  /// The window's variable that moves as the lanes do, by the smallest steps.
  void find_tap() {
    out_.tap = {-1, 1};
    std::int64_t least = 0;
    for (const ExprId id : loads_along(out_.lane)) {
      for (const LoopVar& v : reduction_.inner) {
        const std::int64_t spread = index_of(id).coefficient(v.id);
        if (spread <= 0 || spread > choices_.row_elements_max) continue;
        if (least != 0 && spread >= least) continue;
        out_.tap = v;
        least = spread;
      }
    }
  }

  /// Results of adjacent windows are contiguous.
  bool stores_rows() const {
    return std::ranges::all_of(points_.stages, [&](const Stage* stage) {
      return stage->offset.coefficient(out_.lane.id) == 1 &&
             !stage->offset.hides(out_.lane.id);
    });
  }

  bool find_rows() {
    for (const ExprId id : loads_along(out_.lane)) {
      const Scalar& load = program_.arena[id];
      const Index& at = load.index[0];
      if (load.is_indirect || load.dtype != DType::f32) return false;
      if (cuda_span(program_.buffers[load.buffer]) % kVectorWidth != 0)
        return false;
      WindowRow row;
      row.load = id;
      row.step = at.coefficient(out_.lane.id);
      row.spread = at.coefficient(out_.tap.id);
      if (row.step <= 0 || row.spread < 0 || at.hides(out_.lane.id) ||
          at.hides(out_.tap.id) ||
          !rows_begin_aligned(at, out_.lane, out_.tap)) {
        return false;
      }
      row.shift = (at.offset() % kVectorWidth + kVectorWidth) % kVectorWidth;
      const std::int64_t last = row.shift + row.step * (kVectorWidth - 1) +
                                row.spread * (out_.tap.extent - 1);
      row.elements = (last / kVectorWidth + 1) * kVectorWidth;
      if (row.elements > choices_.row_elements_max) return false;
      out_.rows.push_back(row);
    }
    return !out_.rows.empty();
  }

  void choose_together() {
    std::optional<Jam> best;
    for (std::size_t i = 0; i + 1 < nest_.outer.size(); ++i) {
      if (is_hidden(nest_.outer[i])) continue;
      for (const LoopVar& inner : reduction_.inner) {
        if (inner == out_.tap) continue;
        Jam jam = {nest_.outer[i], inner, step_of(nest_.outer[i], inner)};
        if (jam.step < 1) continue;
        jam.together = together_of(jam);
        if (jam.share() >= 1) continue;
        // Of equals the last: its rows lie closer together.
        if (!best || jam.share() <= best->share()) best = jam;
      }
    }
    if (best) out_.below = *best;
  }

  /// Whether a step of it moves the store by no fixed distance.
  bool is_hidden(LoopVar outer) const {
    return std::ranges::any_of(points_.stages, [&](const Stage* stage) {
      return stage->offset.hides(outer.id);
    });
  }

  /// Elements of `inner` that a step of `outer` is, in every row; 0: it isn't.
  std::int64_t step_of(LoopVar outer, LoopVar inner) const {
    std::int64_t step = 0;
    for (const WindowRow& row : out_.rows) {
      const Index& at = index_of(row.load);
      const std::int64_t outer_step = at.coefficient(outer.id);
      const std::int64_t inner_step = at.coefficient(inner.id);
      if (at.hides(outer.id) || at.hides(inner.id)) return 0;
      if (outer_step <= 0 || inner_step <= 0 || outer_step % inner_step != 0)
        return 0;
      if (step != 0 && outer_step / inner_step != step) return 0;
      step = outer_step / inner_step;
    }
    return step;
  }

  std::int64_t together_of(Jam jam) const {
    const std::int64_t others =
        extent_of(reduction_.inner) / jam.inner.extent / out_.tap.extent;
    const std::int64_t points = extent_of(nest_.outer) / kVectorWidth;
    // A window that is not there may read nothing but rows.
    const bool whole = reads(points_, jam.outer) || reads_besides(jam.outer);
    for (jam.together = choices_.windows_max; jam.together > 1;
         --jam.together) {
      if (others * jam.covered() > choices_.rows_max) continue;
      if (points / jam.together <
          choices_.together_threads_per_sm_min * facts_.sms)
        continue;
      if (whole && jam.outer.extent % jam.together != 0) continue;
      break;
    }
    return jam.together;
  }

  bool reads(const Pass& pass, LoopVar variable) const {
    return std::ranges::any_of(cuda_loads(program_, pass), [&](ExprId id) {
      return index_of(id).uses(variable.id);
    });
  }

  /// Whether something else than a row is read that moves with the variable.
  bool reads_besides(LoopVar variable) const {
    return std::ranges::any_of(
        cuda_loads(program_, reduction_), [&](ExprId id) {
          const bool row = std::ranges::any_of(
              out_.rows, [&](const WindowRow& r) { return r.load == id; });
          return !row && index_of(id).uses(variable.id);
        });
  }

  /// What stands in the kernel once all loops over windows are written out.
  std::int64_t written() const {
    return extent_of(reduction_.inner) / out_.below.inner.extent *
           out_.below.covered();
  }

  /// For each of a window's rows: vectors that a thread reads, and the elements
  /// that windows read one by one.
  double packs_read() const {
    double vectors = 0;
    for (const WindowRow& row : out_.rows) {
      vectors += static_cast<double>(row.elements) / kVectorWidth;
    }
    return vectors * out_.below.share();
  }
  double elements_read() const {
    return static_cast<double>(out_.rows.size()) * kVectorWidth *
           static_cast<double>(out_.tap.extent);
  }

  bool are_alike() const {
    if (out_.below.together == 1) return true;
    return windows_share(program_, reduction_, out_.below.outer, 1,
                         out_.below.inner, out_.below.step);
  }

  const Program& program_;
  const Nest& nest_;
  const Pass& reduction_;
  const Pass& points_;
  const GpuFacts& facts_;
  const CudaWindowChoices& choices_;
  CudaWindows out_;
};

/// A reduction whose elements may come in any order.
bool is_free(const Schedule& plan, const Stage& stage) {
  return stage.is_reduction && stage.position < 0 &&
         stage.reduction != Reduction::argmax &&
         stage.reduction != Reduction::argmin &&
         is_float(plan.program.arena[stage.value].dtype) &&
         !plan.spilled.contains(stage.results[0]);
}

}  // namespace

std::int64_t cuda_span(const Buffer& buffer) {
  return buffer.kind == BufferKind::input ? buffer.span : elements_of(buffer);
}

bool rows_begin_aligned(const Index& at, LoopVar lane, LoopVar tap) {
  return std::ranges::all_of(at.terms(), [&](const Index::Term& term) {
    const Index::Atom& atom = *term.atom;
    const bool moves = atom.kind == Index::AtomKind::variable &&
                       (atom.variable == lane || atom.variable == tap);
    return moves || term.coefficient % kCudaWindowVectorWidth == 0;
  });
}

bool windows_share(const Program& program, const Pass& reduction, LoopVar outer,
                   std::int64_t distance, LoopVar inner, std::int64_t further) {
  ScalarArena arena = program.arena;
  return std::ranges::all_of(reduction.stages, [&](const Stage* stage) {
    const ExprId moved = arena.substitute(
        stage->value, {{outer.id, Index(outer) + Index(distance)},
                       {inner.id, Index(inner) - further}});
    return moved == stage->value;
  });
}

bool reduces_columns_in_any_order(const Schedule& plan, const Nest& nest,
                                  const std::vector<Pass>& passes) {
  if (!nest.outer_reduction || nest.split || passes.size() != 2) return false;
  const Pass& reduction = passes.front();
  const Pass& points = passes.back();
  return !reduction.inner.empty() && points.inner.empty() &&
         std::ranges::all_of(
             reduction.stages,
             [&](const Stage* stage) { return is_free(plan, *stage); }) &&
         std::ranges::all_of(points.stages, [](const Stage* stage) {
           return stage->is_store();
         });
}

std::optional<CudaWindows> find_windows(const Schedule& plan, const Nest& nest,
                                        const std::vector<Pass>& passes,
                                        const GpuFacts& facts) {
  if (!reduces_columns_in_any_order(plan, nest, passes)) return {};
  return Finding(plan, nest, passes, facts).found();
}

}  // namespace weft
