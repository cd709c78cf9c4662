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

CudaFold::CudaFold(const Program& program, const Stage& stage)
    : program_(program), stage_(stage) {
  if (has_position() && extent_of(stage.inner) > INT32_MAX) {
    throw Unsupported{"places of more than 31 bits"};
  }
}

std::string CudaFold::reducer() const {
  const std::string of = "<" + cuda_type(held(program_, stage_)) + ">";
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
  return has_position() ? "Best<" + type + ">" : type;
}

std::int64_t CudaFold::value_bytes() const {
  const std::int64_t bytes = element_bytes(held(program_, stage_));
  return has_position() ? 2 * std::max<std::int64_t>(4, bytes) : bytes;
}

std::string CudaFold::lanes() const {
  return "a" + std::to_string(stage_.results[0]);
}

std::string CudaFold::whole() const {
  return "f" + std::to_string(stage_.results[0]);
}

void CudaFold::need(CudaKernel& kernel) const {
  kernel.need(has_position() ? "arg_folds" : "folds");
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
  kernel.out().line(kernel.if_lane_inside() + into + " = " + call);
}

void CudaFold::conclude(CudaKernel& kernel, const std::string& text,
                        bool by_lane) const {
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

}  // namespace weft
