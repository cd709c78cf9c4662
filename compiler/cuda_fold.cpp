#include "compiler/cuda_fold.hpp"

#include <algorithm>

#include "compiler/lower.hpp"

namespace weft {
namespace {

bool is_truth(const Program& program, const Stage& stage) {
  return program.arena[stage.value].dtype == DType::boolean;
}

// Truth values are held as numbers: the largest says whether any is true.
DType held(const Program& program, const Stage& stage) {
  return is_truth(program, stage) ? DType::i32
                                  : program.arena[stage.value].dtype;
}

}  // namespace

CudaFold::CudaFold(const Program& program, const Stage& stage,
                   const Stage* exponentials)
    : program_(program), stage_(stage), exponentials_(exponentials) {
  if (has_position() && extent_of(stage.inner) > INT32_MAX) {
    throw Unsupported{"places of more than 31 bits"};
  }
}

std::string CudaFold::reducer() const {
  const std::string of = "<" + cuda_type(held(program_, stage_)) + ">";
  if (exponentials_ != nullptr) return "Exponentials" + of;
  switch (stage_.fold) {
    case Fold::sum:
      return "Sum" + of;
    case Fold::prod:
      return "Product" + of;
    case Fold::max:
      return "Max" + of;
    case Fold::min:
      return "Min" + of;
    case Fold::argmax:
      return "ArgMax" + of;
    case Fold::argmin:
      break;
  }
  return "ArgMin" + of;
}

std::string CudaFold::value_type() const {
  const std::string type = cuda_type(held(program_, stage_));
  if (exponentials_ != nullptr) return "Peak<" + type + ">";
  return has_position() ? "Best<" + type + ">" : type;
}

std::int64_t CudaFold::value_bytes() const {
  const std::int64_t bytes = element_bytes(held(program_, stage_));
  const bool two = has_position() || exponentials_ != nullptr;
  return two ? 2 * std::max<std::int64_t>(4, bytes) : bytes;
}

std::string CudaFold::lanes() const {
  return "a" + std::to_string(stage_.results[0]);
}

std::string CudaFold::whole() const {
  return "f" + std::to_string(stage_.results[0]);
}

void CudaFold::need(CudaKernel& kernel) const {
  kernel.need(exponentials_ != nullptr ? "exponentials"
              : has_position()         ? "arg_folds"
                                       : "folds");
}

void CudaFold::declare(CudaKernel& kernel) const {
  need(kernel);
  const std::string count = std::to_string(kernel.lanes());
  kernel.out().line(value_type() + " " + lanes() + "[" + count + "];");
  if (kernel.lanes() > 1) {
    kernel.out().line("#pragma unroll");
    kernel.out().line("for (int l = 0; l < " + count + "; ++l) " + lanes() +
                      "[l] = " + reducer() + "::none();");
  } else {
    kernel.out().line(lanes() + "[0] = " + reducer() + "::none();");
  }
}

std::string CudaFold::step_value(const CudaKernel& kernel) const {
  const std::string value = kernel.operand(stage_.value);
  if (!has_position()) return value;
  return value_type() + "{" + value + ", (int)" +
         kernel.operand(stage_.position) + "}";
}

void CudaFold::step(CudaKernel& kernel) const {
  const std::string into = lanes() + kernel.at_lane();
  const std::string value = kernel.operand(stage_.value);
  std::string call = reducer() + "::of(" + into + ", " + value + ");";
  if (has_position()) {
    call = reducer() + "::next(" + into + ", " + value + ", (int)" +
           kernel.operand(stage_.position) + ");";
  }
  if (exponentials_ != nullptr) {
    call = reducer() + "::next(" + into + ", " + value + ");";
  }
  kernel.out().line(kernel.if_lane_inside() + into + " = " + call);
}

void CudaFold::conclude(CudaKernel& kernel, const std::string& text,
                        bool by_lane) const {
  if (exponentials_ != nullptr) {
    kernel.set_result(stage_.results[0], text + ".most", by_lane);
    kernel.set_result(exponentials_->results[0], text + ".sum", by_lane);
    return;
  }
  if (!has_position()) {
    const bool truth = is_truth(program_, stage_);
    kernel.set_result(stage_.results[0], truth ? "(" + text + " != 0)" : text,
                      by_lane);
    return;
  }
  kernel.set_result(stage_.results[0], text + ".value", by_lane);
  kernel.set_result(stage_.results[1], "(long long)" + text + ".place",
                    by_lane);
}

bool goes_with_largest(const Program& program, const Stage& largest,
                       const Stage& sum) {
  const auto is_call = [&](ExprId id, const char* function) {
    const Scalar& node = program.arena[id];
    return node.op == ScalarOp::call && node.function == function;
  };
  if (!largest.folds || largest.fold != Fold::max || !sum.folds ||
      sum.fold != Fold::sum || !is_float(program.arena[sum.value].dtype) ||
      !is_call(sum.value, "exp")) {
    return false;
  }
  const ExprId inside = program.arena[sum.value].arguments[0];
  if (!is_call(inside, "sub")) return false;
  const Scalar& difference = program.arena[inside];
  const Scalar& from = program.arena[difference.arguments[1]];
  return difference.arguments[0] == largest.value &&
         from.op == ScalarOp::load && from.index.empty() && !from.guarded &&
         from.buffer == largest.results[0];
}

}  // namespace weft
