#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/choices/cost.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {
namespace {

double bytes_of(const Index& index, DType dtype) {
  return static_cast<double>(elements_of(index)) *
         static_cast<double>(element_bytes(dtype));
}

/// Each read once, as often as its own loops go: one that is guarded asks, too.
double bytes_read(const Program& program, const Nest& nest) {
  double bytes = 0;
  std::set<std::string> seen;
  for (const Stage& stage : nest.stages) {
    for (const ExprId id : program.arena.reachable(roots_of(stage))) {
      const Scalar& node = program.arena[id];
      if (node.op != ScalarOp::load || node.index.size() != 1) continue;
      const std::string key =
          std::to_string(node.buffer) + "|" + node.index[0].key();
      if (seen.insert(key).second) bytes += bytes_of(node.index[0], node.dtype);
    }
  }
  return bytes;
}

double bytes_written(const Schedule& plan, const Nest& nest) {
  double bytes = 0;
  for (const Stage& stage : nest.stages) {
    if (stage.is_store()) {
      bytes += bytes_of(stage.offset, plan.program.buffers[stage.output].dtype);
    }
    for (const int result : stage.results) {
      if (!plan.spilled.contains(result)) continue;
      const Buffer& buffer = plan.program.buffers[result];
      bytes += static_cast<double>(elements_of(buffer)) *
               static_cast<double>(element_bytes(buffer.dtype));
    }
  }
  return bytes;
}

/// Instructions for one element, counted in compiled kernels for sm_90. A
/// correctly rounded division or root, and a function that PyTorch computes
/// with exp, take a sequence of instructions. Most others take one.
double instructions_of(const Scalar& node) {
  constexpr std::string_view kSequences[] = {
      "div",  "sqrt", "rsqrt",   "exp",  "exp2",    "expm1",     "log",
      "log2", "tanh", "sigmoid", "silu", "gelu",    "gelu_tanh", "erf",
      "pow",  "sin",  "cos",     "tan",  "softplus"};
  const bool is_sequence =
      node.op == ScalarOp::call &&
      std::ranges::find(kSequences, node.function) != std::end(kSequences);
  return node.op == ScalarOp::constant ? 0
         : is_sequence                 ? kSequenceInstructions
                                       : 1;
}

/// Operations of all points. An expression that depends on an inner variable is
/// computed for each of that variable's values.
double operations(const Program& program, const Nest& nest) {
  double instructions = 0;
  const double points = static_cast<double>(extent_of(nest.outer));
  std::set<ExprId> seen;
  for (const Stage& stage : nest.stages) {
    std::map<ExprId, bool> moves;
    const double inner = static_cast<double>(extent_of(stage.inner));
    for (const ExprId id : program.arena.reachable(roots_of(stage))) {
      const Scalar& node = program.arena[id];
      const auto moves_by = [&](const LoopVar& variable) {
        return std::ranges::any_of(node.index, [&](const Index& index) {
          return index.uses(variable.id);
        });
      };
      moves[id] = std::ranges::any_of(stage.inner, moves_by) ||
                  std::ranges::any_of(node.arguments, [&](ExprId argument) {
                    return moves[argument];
                  });
      if (!seen.insert(id).second) continue;
      instructions += instructions_of(node) * points * (moves[id] ? inner : 1);
    }
  }
  return kOperationsPerInstruction * instructions;
}

}  // namespace

double moving_us(const Schedule& plan, const DeviceRates& rates) {
  double us = 0;
  for (const Nest& nest : plan.nests) {
    Work work;
    work.bytes = bytes_read(plan.program, nest) + bytes_written(plan, nest);
    if (!nest.no_fuse) work.fp32_operations = operations(plan.program, nest);
    us += cost_us(work, rates);
  }
  return us;
}

}  // namespace weft
