#include "compiler/triton/reduction.hpp"

namespace weft {
namespace {

bool is_truth(const Program& program, const Stage& stage) {
  return program.arena[stage.value].dtype == DType::boolean;
}

}  // namespace

TritonReduction::TritonReduction(const Program& program, const Stage& stage)
    : program_(program), stage_(stage) {
  for (const int buffer : stage.results) {
    names_.push_back("a" + std::to_string(buffer));
  }
}

DType TritonReduction::accumulator_dtype() const {
  return is_truth(program_, stage_) ? DType::i32
                                    : program_.arena[stage_.value].dtype;
}

std::string TritonReduction::neutral(std::size_t which) const {
  if (which == 1) return "0x7fffffff";
  const bool real = is_float(accumulator_dtype());
  switch (stage_.reduction) {
    case Reduction::sum:
      return real ? "0.0" : "0";
    case Reduction::prod:
      return real ? "1.0" : "1";
    case Reduction::max:
    case Reduction::argmax:
      if (is_truth(program_, stage_)) return "0";
      if (real) return "float(\"-inf\")";
      return accumulator_dtype() == DType::i64 ? "-9223372036854775808"
                                               : "-2147483648";
    case Reduction::min:
    case Reduction::argmin:
      break;
  }
  if (is_truth(program_, stage_)) return "1";
  if (real) return "float(\"inf\")";
  return accumulator_dtype() == DType::i64 ? "9223372036854775807"
                                           : "2147483647";
}

std::string TritonReduction::combiner() const {
  switch (stage_.reduction) {
    case Reduction::sum:
      return "sum_of";
    case Reduction::prod:
      return "product_of";
    case Reduction::max:
      return "max_of";
    case Reduction::min:
      return "min_of";
    case Reduction::argmax:
      return "argmax_of";
    case Reduction::argmin:
      break;
  }
  return "argmin_of";
}

void TritonReduction::begin(TritonKernel& kernel,
                            const std::string& shape) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const DType dtype = i == 0 ? accumulator_dtype() : DType::i32;
    kernel.line(names_[i] + " = tl.full(" + shape + ", " + neutral(i) + ", " +
                triton_type(dtype) + ")");
  }
}

std::vector<std::string> TritonReduction::tile(TritonKernel& kernel,
                                               const std::string& shape,
                                               const std::string& mask) const {
  const Scalar& value = program_.arena[stage_.value];
  std::vector<std::string> texts = {kernel.operand(stage_.value)};
  if (is_plain_number(value)) {
    texts[0] = "tl.full((1, 1), " + texts[0] + ", tl.float32)";
  } else if (is_truth(program_, stage_)) {
    texts[0] += ".to(tl.int32)";
  } else if (value.op == ScalarOp::position) {
    texts[0] += ".to(" + triton_type(accumulator_dtype()) + ")";
  }
  if (has_position()) {
    texts.push_back(kernel.operand(stage_.position) + ".to(tl.int32)");
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!mask.empty()) {
      texts[i] = "tl.where(" + mask + ", " + texts[i] + ", " + neutral(i) + ")";
    }
    const std::string name = "t" + names_[i].substr(1);
    kernel.line(name + " = tl.broadcast_to(" + texts[i] + ", " + shape + ")");
    texts[i] = name;
  }
  return texts;
}

void TritonReduction::take(TritonKernel& kernel,
                           const std::vector<std::string>& tile) const {
  if (has_position()) {
    kernel.help(combiner());
    kernel.line(names_[0] + ", " + names_[1] + " = _" + combiner() + "(" +
                names_[0] + ", " + names_[1] + ", " + tile[0] + ", " + tile[1] +
                ")");
    return;
  }
  if (stage_.reduction == Reduction::sum)
    return kernel.line(names_[0] + " += " + tile[0]);
  if (stage_.reduction == Reduction::prod) {
    return kernel.line(names_[0] + " *= " + tile[0]);
  }
  const bool most = stage_.reduction == Reduction::max;
  if (is_float(accumulator_dtype())) {
    kernel.help(combiner());
    return kernel.line(names_[0] + " = _" + combiner() + "(" + names_[0] +
                       ", " + tile[0] + ")");
  }
  kernel.line(names_[0] + (most ? " = tl.maximum(" : " = tl.minimum(") +
              names_[0] + ", " + tile[0] + ")");
}

void TritonReduction::reduce(TritonKernel& kernel,
                             const std::vector<std::string>& values) const {
  const std::string& result = names_[0];
  if (stage_.reduction == Reduction::sum) {
    return kernel.line(result + " = tl.sum(" + values[0] +
                       ", axis=1)[:, None]");
  }
  if (!has_position() && !is_float(accumulator_dtype()) &&
      stage_.reduction != Reduction::prod) {
    const std::string name =
        stage_.reduction == Reduction::max ? "tl.max(" : "tl.min(";
    return kernel.line(result + " = " + name + values[0] +
                       ", axis=1)[:, None]");
  }
  kernel.help(combiner());
  if (!has_position()) {
    return kernel.line(result + " = tl.reduce(" + values[0] + ", 1, _" +
                       combiner() + ")[:, None]");
  }
  kernel.line(result + ", " + names_[1] + " = tl.reduce((" + values[0] + ", " +
              values[1] + "), 1, _" + combiner() + ")");
  kernel.line(result + " = " + result + "[:, None]");
  kernel.line(names_[1] + " = " + names_[1] + "[:, None]");
}

void TritonReduction::scan(TritonKernel& kernel, const std::string& tile,
                           const std::string& carry) const {
  kernel.help(combiner());
  const std::string combine = "_" + combiner();
  const std::string& result = names_[0];
  if (stage_.reduction == Reduction::sum) {
    kernel.line(result + " = tl.cumsum(" + tile + ", axis=1)");
  } else {
    kernel.line(result + " = tl.associative_scan(" + tile + ", 1, " + combine +
                ")");
  }
  if (carry.empty()) return;
  kernel.line(result + " = " + combine + "(" + carry + ", " + result + ")");
  if (stage_.reduction == Reduction::sum) {
    kernel.line(carry + " += tl.sum(" + tile + ", axis=1)[:, None]");
  } else {
    kernel.line(carry + " = " + combine + "(" + carry + ", tl.reduce(" + tile +
                ", 1, " + combine + ")[:, None])");
  }
}

void TritonReduction::conclude(TritonKernel& kernel) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    std::string text = names_[i];
    if (i == 1) text += ".to(tl.int64)";
    if (i == 0 && is_truth(program_, stage_)) text += " != 0";
    const std::string name = "s" + names_[i].substr(1) + "_";
    if (text != names_[i]) kernel.line(name + " = " + text);
    kernel.set_result(stage_.results[i], text == names_[i] ? text : name,
                      false);
  }
}

}  // namespace weft
