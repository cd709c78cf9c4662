#include "compiler/cuda/kernel.hpp"

#include <algorithm>

#include "compiler/loops/integers.hpp"

namespace weft {
namespace {

std::string indented(const std::string& lines) {
  std::string text;
  bool begins = true;
  for (const char c : lines) {
    if (begins) text += "  ";
    text += c;
    begins = c == '\n';
  }
  return text;
}

}  // namespace

CudaKernel::CudaKernel(const Program& program, CudaModule& module, int lane,
                       int vector_width, bool wide)
    : program_(program),
      module_(module),
      lane_(lane),
      vector_width_(vector_width) {
  scope_.program = &program;
  scope_.helpers = &module.helpers;
  scope_.index_type = wide ? "long long" : "int";
}

void CudaKernel::declare(const std::vector<LoopVar>& variables,
                         const std::string& position) {
  std::int64_t stride = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    const LoopVar v = variables[i];
    const std::string name = name_of(v);
    std::string text = position;
    if (stride > 1) text += " / " + std::to_string(stride);
    if (i > 0) text += " % " + std::to_string(v.extent);
    out_.line("const " + index_type() + " " + name + " = " + text + ";");
    scope_.variables[v.id] = name;
    stride *= v.extent;
  }
}

void CudaKernel::expect_inner(const std::vector<LoopVar>& variables) {
  for (const LoopVar& v : variables) inner_variables_.insert(v.id);
}

bool CudaKernel::depends_on_inner(ExprId id) const {
  for (const ExprId each : program_.arena.reachable({id})) {
    const Scalar& node = program_.arena[each];
    if (node.op == ScalarOp::load && inner_results_.contains(node.buffer)) {
      return true;
    }
    for (const Index& index : node.index) {
      for (const int variable : inner_variables_) {
        if (index.uses(variable)) return true;
      }
    }
  }
  return false;
}

bool CudaKernel::depends_on_lane(ExprId id) const {
  if (vector_width_ == 1) return false;
  for (const ExprId each : program_.arena.reachable({id})) {
    const Scalar& node = program_.arena[each];
    const bool at_hand = node.op == ScalarOp::load && node.index.empty();
    if (at_hand && lane_results_.contains(node.buffer)) return true;
    for (const Index& index : node.index) {
      const bool moves = lane_distance_ == 1
                             ? step_along(index, lane_, vector_width_) != 0
                             : index.uses(lane_);
      if (moves) return true;
    }
  }
  return false;
}

bool CudaKernel::is_vector_access(const Index& index) const {
  return lane_distance_ == 1 && step_along(index, lane_, vector_width_) == 1 &&
         (!shifted_.empty() || is_aligned(index, lane_, vector_width_));
}

bool CudaKernel::is_vector_load(ExprId id) const {
  const Scalar& node = program_.arena[id];
  return node.op == ScalarOp::load && !node.guarded && !node.is_indirect &&
         node.index.size() == 1 && is_vector_access(node.index[0]) &&
         !scope_.at_hand.contains(id);
}

void CudaKernel::print(ExprId id) {
  const Scalar& node = program_.arena[id];
  if (node.op == ScalarOp::load) used_.insert(node.buffer);
  const std::string name = "x" + std::to_string(id);
  out_.line("const " + type(id) + " " + name + " = " + text_of(id) + ";");
  scope_.names[id] = name;
}

std::string CudaKernel::text_of(ExprId id) const {
  const Scalar& node = program_.arena[id];
  if (node.op == ScalarOp::call && node.function == "div") {
    const auto found = inverses_.find(node.arguments[1]);
    if (found != inverses_.end()) {
      return (is_share(node) ? "share(" : "quotient(") +
             operand(node.arguments[0]) + ", " + found->second + ")";
    }
  }
  if (shares_.contains(id)) {
    return "exp_below(" + operand(node.arguments[0]) + ")";
  }
  return cuda_expression(scope_, id);
}

void CudaKernel::set_shares(ExprId power, int sum) {
  if (module_.approximate || program_.arena[power].dtype != DType::f32) return;
  shares_[power] = sum;
}

bool CudaKernel::is_share(const Scalar& division) const {
  const auto found = shares_.find(division.arguments[0]);
  const Scalar& sum = program_.arena[division.arguments[1]];
  return found != shares_.end() && sum.op == ScalarOp::load &&
         sum.buffer == found->second;
}

// What many elements are divided by is inverted once.
void CudaKernel::invert_divisors(const std::vector<ExprId>& roots) {
  for (const ExprId id : program_.arena.reachable(roots)) {
    const Scalar& node = program_.arena[id];
    if (node.op != ScalarOp::call || node.function != "div" ||
        node.dtype != DType::f32) {
      continue;
    }
    const ExprId divisor = node.arguments[1];
    if (!depends_on_inner(id) ||
        program_.arena[divisor].op == ScalarOp::constant ||
        depends_on_inner(divisor) || depends_on_lane(divisor)) {
      continue;
    }
    need(module_.approximate ? "coarse_quotient"
         : is_share(node)    ? "share"
                             : "quotient");
    if (inverses_.contains(divisor)) continue;
    const std::string name = "d" + std::to_string(divisor);
    out_.line("const Divisor " + name + " = divisor(" + operand(divisor) +
              ");");
    inverses_[divisor] = name;
  }
}

std::string CudaKernel::load_call(const std::string& position) const {
  const std::string count = std::to_string(vector_width_);
  if (shifted_.empty()) return "load_vector<" + count + ">(" + position + ")";
  return "load_masked<" + count + ">(" + position + ", r, " + shifted_ + ")";
}

std::string CudaKernel::if_lane_inside() const {
  if (shifted_.empty()) return "";
  return "if (r + l >= 0 && r + l < " + shifted_ + ") ";
}

void CudaKernel::compute(const std::vector<ExprId>& roots, bool points_only) {
  for (const ExprId id : program_.arena.reachable(roots)) {
    const Scalar& node = program_.arena[id];
    const bool silent = node.op == ScalarOp::constant ||
                        (node.op == ScalarOp::load && node.index.empty());
    if (silent || scope_.names.contains(id)) continue;
    if (points_only && depends_on_inner(id)) continue;
    const auto found = persistent_.find(id);
    if (found != persistent_.end()) {
      scope_.names[id] = found->second + ".at" + at_lane();
    } else if (vector_width_ > 1 && is_vector_load(id)) {
      used_.insert(node.buffer);
      const std::string count = std::to_string(vector_width_);
      const std::string name = "q" + std::to_string(id);
      out_.line("const Vector<" + cuda_type(node.dtype) + ", " + count + "> " +
                name + " = " +
                load_call(program_.buffers[node.buffer].name + " + " +
                          index(node.index[0])) +
                ";");
      scope_.names[id] = name + ".at[l]";
    } else if (!depends_on_lane(id)) {
      print(id);
    }
  }
  if (points_only) invert_divisors(roots);
}

void CudaKernel::open_lanes() {
  if (vector_width_ == 1) return;
  out_.line("#pragma unroll");
  out_.open("for (int l = 0; l < " + std::to_string(vector_width_) + "; ++l)");
  lane_text_ = scope_.variables[lane_];
  if (lane_distance_ == 1) {
    scope_.variables[lane_] = "(" + lane_text_ + " + l)";
    return;
  }
  const std::string position =
      lane_text_ + " + l * " + std::to_string(lane_distance_);
  out_.line("const bool inside = " + position + " < " +
            std::to_string(lane_end_) + ";");
  out_.line("const int column = inside ? " + position + " : 0;");
  scope_.variables[lane_] = "column";
}

void CudaKernel::compute_lanes(const std::vector<ExprId>& roots) {
  for (const ExprId id : program_.arena.reachable(roots)) {
    const Scalar& node = program_.arena[id];
    const bool silent = node.op == ScalarOp::constant ||
                        (node.op == ScalarOp::load && node.index.empty());
    if (!silent && !scope_.names.contains(id)) print(id);
  }
}

void CudaKernel::close_lanes() {
  if (vector_width_ == 1) return;
  scope_.variables[lane_] = lane_text_;
  out_.close();
}

void CudaKernel::set_result(int buffer, const std::string& text, bool by_lane,
                            bool inner) {
  scope_.results[buffer] = text;
  if (by_lane) lane_results_.insert(buffer);
  if (inner) inner_results_.insert(buffer);
}

void CudaKernel::use(const std::string& type, const std::string& scratch) {
  const std::pair<std::string, std::string> entry = {type, scratch};
  if (std::ranges::find(scratch_used_, entry) == scratch_used_.end()) {
    scratch_used_.push_back(entry);
  }
}

void CudaKernel::finish(CudaLaunch launch) {
  launch.kernel = "kernel" + std::to_string(module_.launches.size());
  std::string parameters;
  const auto add = [&](const std::string& type, const std::string& name) {
    parameters +=
        (parameters.empty() ? "" : ", ") + type + "* __restrict__ " + name;
    launch.arguments.push_back(name);
  };
  for (const int number : used_) {
    const Buffer& buffer = program_.buffers[number];
    const bool input = buffer.kind == BufferKind::input;
    add((input ? "const " : "") + cuda_type(buffer.dtype), buffer.name);
  }
  for (const auto& [type, name] : scratch_used_) add(type, name);
  module_.kernels +=
      "extern \"C\" __global__ void __launch_bounds__(" +
      std::to_string(launch.threads) +
      (launch.blocks_per_sm > 1 ? ", " + std::to_string(launch.blocks_per_sm)
                                : "") +
      ")\n" + launch.kernel + "(" + parameters + ") {\n" +
      indented(out_.str()) + "}\n\n";
  module_.launches.push_back(std::move(launch));
}

void CudaKernel::finish(std::int64_t points, int threads) {
  CudaLaunch launch;
  launch.blocks = ceil_div(points, threads);
  launch.threads = threads;
  finish(std::move(launch));
}

}  // namespace weft
