#include "compiler/cuda/reduction.hpp"

#include <algorithm>

#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

bool is_boolean(const Program& program, const Stage& stage) {
  return program.arena[stage.value].dtype == DType::boolean;
}

// Booleans accumulate as numbers: their maximum says whether any is true.
DType accumulator_dtype(const Program& program, const Stage& stage) {
  return is_boolean(program, stage) ? DType::i32
                                    : program.arena[stage.value].dtype;
}

}  // namespace

CudaReduction::CudaReduction(const Program& program, const Stage& stage,
                             const Stage* companion, bool closes)
    : program_(program), stage_(stage), companion_(companion), closes_(closes) {
  if (has_position() && extent_of(stage.inner) > INT32_MAX) {
    throw Unsupported{"places of more than 31 bits"};
  }
}

std::string CudaReduction::reducer() const {
  const std::string of =
      "<" + cuda_type(accumulator_dtype(program_, stage_)) + ">";
  if (is_spread()) return "Spread" + of;
  if (companion_ != nullptr) return "Exponentials" + of;
  switch (stage_.reduction) {
    case Reduction::sum:
      return "Sum" + of;
    case Reduction::prod:
      return "Product" + of;
    case Reduction::max:
      return "Max" + of;
    case Reduction::min:
      return "Min" + of;
    case Reduction::argmax:
      return "ArgMax" + of;
    case Reduction::argmin:
      break;
  }
  return "ArgMin" + of;
}

std::string CudaReduction::value_type() const {
  const std::string type = cuda_type(accumulator_dtype(program_, stage_));
  if (is_spread()) return "Moments<" + type + ">";
  if (companion_ != nullptr) return "Peak<" + type + ">";
  return has_position() ? "Best<" + type + ">" : type;
}

std::int64_t CudaReduction::value_bytes() const {
  const std::int64_t bytes = element_bytes(accumulator_dtype(program_, stage_));
  if (is_spread()) return 3 * bytes;
  const bool two = has_position() || companion_ != nullptr;
  return two ? 2 * std::max<std::int64_t>(4, bytes) : bytes;
}

std::string CudaReduction::accumulators() const {
  return "a" + std::to_string(stage_.results[0]);
}

std::string CudaReduction::whole() const {
  return "f" + std::to_string(stage_.results[0]);
}

void CudaReduction::need(CudaKernel& kernel) const {
  kernel.need(is_spread()             ? "spread"
              : companion_ != nullptr ? "exponentials"
              : has_position()        ? "arg_folds"
                                      : "folds");
  if (companion_ != nullptr && !is_spread()) kernel.need_exp_below();
}

void CudaReduction::declare(CudaKernel& kernel) const {
  need(kernel);
  const std::string count = std::to_string(kernel.vector_width());
  const std::string type = cuda_type(accumulator_dtype(program_, stage_));
  const std::string none =
      reducer() + (is_spread() ? "::nothing();" : "::none();");
  if (takes_vectors(kernel)) {
    kernel.out().line(value_type() + " " + accumulators() + " = " + none);
    return;
  }
  kernel.out().line((is_spread() ? "Shifted<" + type + ">" : value_type()) +
                    " " + accumulators() + "[" + count + "];");
  if (kernel.vector_width() > 1) {
    kernel.out().line("#pragma unroll");
    kernel.out().line("for (int l = 0; l < " + count + "; ++l) " +
                      accumulators() + "[l] = " + none);
  } else {
    kernel.out().line(accumulators() + "[0] = " + none);
  }
}

std::string CudaReduction::closed(const CudaKernel& kernel) const {
  if (takes_vectors(kernel)) return accumulators();
  const int count = kernel.vector_width();
  const std::string of = "<" + reducer() + ", " + std::to_string(count) + ">(";
  if (is_spread()) return "close_lanes" + of + accumulators() + ")";
  return count > 1 ? "fold_lanes" + of + accumulators() + ")"
                   : accumulators() + "[0]";
}

std::string CudaReduction::vector() const {
  return "p" + std::to_string(stage_.results[0]);
}

void CudaReduction::open_vector(CudaKernel& kernel) const {
  if (!takes_vectors(kernel)) return;
  kernel.out().line(cuda_type(accumulator_dtype(program_, stage_)) + " " +
                    vector() + "[" + std::to_string(kernel.vector_width()) +
                    "];");
}

void CudaReduction::close_vector(CudaKernel& kernel) const {
  if (!takes_vectors(kernel)) return;
  kernel.out().line(accumulators() + " = " + reducer() + "::next(" +
                    accumulators() + ", " + vector() + ");");
}

std::string CudaReduction::step_value(const CudaKernel& kernel) const {
  const std::string value = kernel.operand(stage_.value);
  if (!has_position()) return value;
  return value_type() + "{" + value + ", (int)" +
         kernel.operand(stage_.position) + "}";
}

void CudaReduction::step(CudaKernel& kernel) const {
  const std::string value = kernel.operand(stage_.value);
  if (takes_vectors(kernel)) {
    const std::string into = vector() + kernel.at_lane() + " = ";
    const std::string inside = kernel.if_lane_inside();
    if (!inside.empty()) kernel.out().line(into + "-INFINITE;");
    kernel.out().line(inside + into + value + ";");
    return;
  }
  const std::string into = accumulators() + kernel.at_lane();
  std::string call = reducer() + "::of(" + into + ", " + value + ");";
  if (has_position()) {
    call = reducer() + "::next(" + into + ", " + value + ", (int)" +
           kernel.operand(stage_.position) + ");";
  }
  if (companion_ != nullptr) {
    call = reducer() + "::next(" + into + ", " + value + ");";
  }
  kernel.out().line(kernel.if_lane_inside() + into + " = " + call);
}

void CudaReduction::conclude(CudaKernel& kernel, const std::string& text,
                             bool by_lane) const {
  if (is_spread()) {
    const DType dtype = accumulator_dtype(program_, stage_);
    kernel.set_result(stage_.results[0],
                      "(" + text + ".mean * (" + cuda_type(dtype) + ")" +
                          std::to_string(extent_of(stage_.inner)) + ")",
                      by_lane);
    kernel.set_result(companion_->results[0], text + ".squares", by_lane);
    return;
  }
  if (companion_ != nullptr) {
    kernel.set_result(stage_.results[0], text + ".most", by_lane);
    // Of nothing but -inf each exponential is of NaN.
    kernel.set_result(
        companion_->results[0],
        "(" + text + ".most == -INFINITE ? NOT_A_NUMBER : " + text + ".sum)",
        by_lane);
    kernel.set_shares(companion_->value, companion_->results[0]);
    return;
  }
  if (!has_position()) {
    const bool truth = is_boolean(program_, stage_);
    kernel.set_result(stage_.results[0], truth ? "(" + text + " != 0)" : text,
                      by_lane);
    return;
  }
  kernel.set_result(stage_.results[0], text + ".value", by_lane);
  kernel.set_result(stage_.results[1], "(long long)" + text + ".place",
                    by_lane);
}

namespace {

const Scalar* call_of(const Program& program, ExprId id, const char* function) {
  const Scalar& node = program.arena[id];
  const bool is = node.op == ScalarOp::call && node.function == function;
  return is ? &node : nullptr;
}

bool reads_result(const Program& program, ExprId id, const Stage& stage) {
  const Scalar& node = program.arena[id];
  return node.op == ScalarOp::load && node.index.empty() && !node.guarded &&
         node.buffer == stage.results[0];
}

bool is_mean(const Program& program, ExprId id, const Stage& sum) {
  const Scalar* division = call_of(program, id, "div");
  if (division == nullptr) return false;
  const Scalar& count = program.arena[division->arguments[1]];
  return reads_result(program, division->arguments[0], sum) &&
         count.op == ScalarOp::constant &&
         count.number == static_cast<double>(extent_of(sum.inner));
}

}  // namespace

bool can_fuse_reductions(const Program& program, const Stage& first,
                         const Stage& second) {
  if (!first.is_reduction || !second.is_reduction ||
      second.reduction != Reduction::sum ||
      !is_float(program.arena[second.value].dtype)) {
    return false;
  }
  const Scalar* exponential = call_of(program, second.value, "exp");
  const Scalar* square = call_of(program, second.value, "product");
  if (exponential != nullptr && first.reduction == Reduction::max) {
    const Scalar* from = call_of(program, exponential->arguments[0], "sub");
    return from != nullptr && from->arguments[0] == first.value &&
           reads_result(program, from->arguments[1], first);
  }
  if (square != nullptr && first.reduction == Reduction::sum &&
      square->arguments[0] == square->arguments[1]) {
    const Scalar* from = call_of(program, square->arguments[0], "sub");
    return from != nullptr && from->arguments[0] == first.value &&
           is_mean(program, from->arguments[1], first);
  }
  return false;
}

}  // namespace weft
