#include "compiler/cuda/stencil_tile.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/cuda/nest.hpp"
#include "compiler/cuda/scalar.hpp"
#include "compiler/cuda/vector_width.hpp"
#include "compiler/cuda/windows.hpp"

namespace weft {
namespace {

constexpr std::int64_t kVectorWidth = kCudaStencilVectorWidth;
constexpr std::int64_t kWarp = 32;

class Finding {
 public:
  Finding(const Schedule& plan, const Nest& nest,
          const std::vector<Pass>& passes, const GpuFacts& facts)
      : program_(plan.program),
        nest_(nest),
        reduction_(passes.front()),
        points_(passes.back()),
        facts_(facts),
        choices_(facts.choices.cuda.stencil) {}

  std::optional<CudaStencilTile> found() {
    it_.lane = nest_.outer.back();
    const bool fits = reduction_.stages.size() == 1 && find_load() &&
                      find_tap() && check_row_fits() && stores_vectors() &&
                      find_elements() && find_beyond() && find_walk();
    if (!fits) return {};
    return std::move(it_);
  }

 private:
  const Stage& stage() const { return *reduction_.stages.front(); }
  const Index& at() const { return program_.arena[it_.load].index[0]; }

  /// The element itself, or what stands for one that does not exist.
  bool find_load() {
    const ScalarArena& arena = program_.arena;
    it_.load = stage().value;
    const Scalar& value = arena[it_.load];
    const bool selects =
        value.op == ScalarOp::call && value.function == "select";
    if (selects) it_.load = value.arguments[1];
    const Scalar& load = arena[it_.load];
    if (load.op != ScalarOp::load || load.index.size() != 1 ||
        load.is_indirect || load.dtype != DType::f32 ||
        (selects && !load.guarded)) {
      return false;
    }
    if (selects) {
      const Scalar& outside = arena[value.arguments[2]];
      return load.guard() == value.arguments[0] &&
             outside.op == ScalarOp::constant && is_none(outside.number);
    }
    return !load.guarded || is_none(0);
  }

  bool is_none(double number) const {
    switch (stage().reduction) {
      case Reduction::sum:
        return number == 0;
      case Reduction::max:
        return number < 0 && std::isinf(number);
      case Reduction::min:
        return number > 0 && std::isinf(number);
      default:
        return false;
    }
  }

  bool find_tap() {
    for (const LoopVar& v : reduction_.inner) {
      const std::int64_t spread = at().coefficient(v.id);
      if (spread < 1 || spread >= kVectorWidth * kWarp) continue;
      if (it_.tap.extent > 1 && spread >= it_.spread) continue;
      it_.tap = v;
      it_.spread = spread;
    }
    it_.step = at().coefficient(it_.lane.id);
    return it_.tap.extent > 1 && it_.step >= 1 &&
           kVectorWidth % it_.step == 0 && !at().hides(it_.lane.id) &&
           !at().hides(it_.tap.id);
  }

  /// Rows begin at multiples of a vector, so that an element's place in the row
  /// gives its lane.
  bool check_row_fits() {
    const Buffer& buffer = program_.buffers[program_.arena[it_.load].buffer];
    it_.shift =
        at().offset() - kVectorWidth * floor_of(at().offset(), kVectorWidth);
    it_.windows = kVectorWidth / it_.step;
    return cuda_span(buffer) % kVectorWidth == 0 &&
           rows_begin_aligned(at(), it_.lane, it_.tap);
  }

  bool stores_vectors() const {
    return it_.lane.extent % it_.windows == 0 &&
           std::ranges::all_of(points_.stages, [&](const Stage* stage) {
             return stage->offset.coefficient(it_.lane.id) == 1 &&
                    !stage->offset.hides(it_.lane.id) &&
                    is_aligned(stage->offset, it_.lane.id, it_.windows);
           });
  }

  /// Which places of a row exist; guards that say nothing of it are kept.
  bool find_elements() {
    std::vector<ExprId> along;
    split_guard(program_.arena[it_.load].guard(), along);
    if (!separable_) return false;
    if (it_.lane.extent * it_.tap.extent > choices_.tried_pairs_max)
      return false;
    std::vector<std::int64_t> with, without;
    for (std::int64_t w = 0; w < it_.lane.extent; ++w) {
      for (std::int64_t k = 0; k < it_.tap.extent; ++k) {
        const bool exists = std::ranges::all_of(
            along, [&](ExprId guard) { return holds(guard, w, k); });
        (exists ? with : without).push_back(it_.element_index(w, k));
      }
    }
    if (!separable_ || with.empty()) return false;
    const auto [low, high] = std::ranges::minmax(with);
    it_.low = low;
    it_.high = high;
    if (std::ranges::any_of(without, [&](std::int64_t element_index) {
          return element_index >= low && element_index <= high;
        })) {
      return false;
    }
    const std::int64_t first_vector = low / kVectorWidth;
    it_.vectors = high / kVectorWidth - first_vector + 1;
    for (std::int64_t* element_index : {&it_.shift, &it_.low, &it_.high}) {
      *element_index -= kVectorWidth * first_vector;
    }
    return true;
  }

  void split_guard(ExprId guard, std::vector<ExprId>& along) {
    if (guard < 0) return;
    const Scalar& node = program_.arena[guard];
    if (node.op == ScalarOp::call && node.function == "logical_and") {
      for (const ExprId each : node.arguments) split_guard(each, along);
      return;
    }
    bool in_row = false, elsewhere = false;
    for (const ExprId id : program_.arena.reachable({guard})) {
      for (const Index& index : program_.arena[id].index) {
        std::map<int, LoopVar> variables;
        index.collect(variables);
        for (const auto& [number, variable] : variables) {
          const bool is_along = variable == it_.lane || variable == it_.tap;
          (is_along ? in_row : elsewhere) = true;
        }
      }
    }
    if (in_row && elsewhere) separable_ = false;
    (in_row ? along : it_.guards).push_back(guard);
  }

  /// Of a comparison of a place and a number; of anything else nobody knows.
  bool holds(ExprId guard, std::int64_t window, std::int64_t element) {
    const Scalar& node = program_.arena[guard];
    if (node.op != ScalarOp::call || node.arguments.size() != 2) {
      separable_ = false;
      return false;
    }
    std::int64_t sides[2];
    for (int i = 0; i < 2; ++i) {
      const Scalar& side = program_.arena[node.arguments[i]];
      const bool is_position = side.op == ScalarOp::position;
      if (!is_position && side.op != ScalarOp::constant) separable_ = false;
      const Index element_index =
          is_position ? side.index[0].substitute({{it_.lane.id, Index(window)},
                                                  {it_.tap.id, Index(element)}})
                      : Index(side.integer);
      if (!element_index.is_constant()) separable_ = false;
      sides[i] = element_index.offset();
    }
    if (node.function == "ge") return sides[0] >= sides[1];
    if (node.function == "gt") return sides[0] > sides[1];
    if (node.function == "le") return sides[0] <= sides[1];
    if (node.function == "lt") return sides[0] < sides[1];
    separable_ = false;
    return false;
  }

  /// How many threads share a row, and the halo that these need.
  bool find_beyond() {
    const std::int64_t needed =
        std::max(it_.vectors, it_.lane.extent / it_.windows);
    it_.threads = 1;
    while (it_.threads < std::min(needed, kWarp)) it_.threads *= 2;
    if (needed > kWarp) it_.threads = ceil_div(needed, kWarp) * kWarp;
    if (it_.threads * 3 > needed * 4) return false;
    if (needed <= kWarp) return true;
    const std::int64_t first = it_.element_index(0, 0);
    const std::int64_t last =
        it_.element_index(it_.windows - 1, it_.tap.extent - 1);
    it_.left = std::max<std::int64_t>(0, -floor_of(first, kVectorWidth));
    it_.right = std::max<std::int64_t>(0, floor_of(last, kVectorWidth));
    return it_.left + it_.right <= choices_.halo_vectors_max;
  }

  /// The direction in which fewest planes are read again.
  bool find_walk() {
    double best = 1;
    for (std::size_t i = 0; i + 1 < nest_.outer.size(); ++i) {
      for (const LoopVar& plane : reduction_.inner) {
        const LoopVar walked = nest_.outer[i];
        const std::int64_t far_step = at().coefficient(walked.id);
        const std::int64_t near_step = at().coefficient(plane.id);
        if (plane == it_.tap || far_step <= 0 || near_step <= 0 ||
            at().hides(walked.id) || at().hides(plane.id)) {
          continue;
        }
        const std::int64_t both = std::gcd(far_step, near_step);
        const std::int64_t distance = near_step / both, fresh = far_step / both;
        const double share =
            static_cast<double>(fresh) / static_cast<double>(plane.extent);
        if (share >= best || distance >= walked.extent ||
            distance * (plane.extent - fresh) > choices_.kept_planes_max ||
            !windows_share(program_, reduction_, walked, distance, plane,
                           fresh)) {
          continue;
        }
        best = share;
        it_.walked = walked;
        it_.plane = plane;
        it_.distance = distance;
        it_.fresh = fresh;
      }
    }
    if (best >= 1) return false;
    for (const LoopVar& v : reduction_.inner) {
      if (v != it_.tap && v != it_.plane) it_.others.push_back(v);
    }
    if (extent_of(it_.others) * it_.plane.extent > choices_.written_reads_max)
      return false;
    // An image's windows that step by one share all but a column: in registers
    // they reach as much.
    if (it_.others.empty() && it_.step == 1) return false;
    const std::int64_t threads = extent_of(nest_.outer) / it_.lane.extent *
                                 it_.threads /
                                 (choices_.threads_per_sm_min * facts_.sms);
    it_.walk =
        std::min({threads, choices_.walk_windows_max, it_.walked.extent});
    if (it_.walk < choices_.walk_windows_min) return false;
    it_.walk = ceil_div(it_.walked.extent,
                        ceil_div(it_.walked.extent, it_.walk));  // alike
    return true;
  }

  const Program& program_;
  const Nest& nest_;
  const Pass& reduction_;
  const Pass& points_;
  const GpuFacts& facts_;
  const CudaStencilChoices& choices_;
  CudaStencilTile it_;
  bool separable_ = true;
};

}  // namespace

std::optional<CudaStencilTile> find_stencil_tile(
    const Schedule& plan, const Nest& nest, const std::vector<Pass>& passes,
    const GpuFacts& facts) {
  if (!reduces_columns_in_any_order(plan, nest, passes)) return {};
  return Finding(plan, nest, passes, facts).found();
}

}  // namespace weft
