#include "compiler/cpu/scalar.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "compiler/graph/symbolic_shapes.hpp"
#include "compiler/loops/scalar_functions.hpp"

namespace weft {
namespace {

/// A conversion of the prelude: "to_bfloat16".
std::string half_function(const std::string& prefix, DType half) {
  return prefix + "_" + std::string(dtype_name(half));
}

std::string number_text(DType dtype, double number) {
  const std::string type = stored_type(dtype);
  if (std::isnan(number)) {
    return "std::numeric_limits<" + type + ">::quiet_NaN()";
  }
  if (std::isinf(number)) {
    return (number < 0 ? "-std::numeric_limits<" : "std::numeric_limits<") +
           type + ">::infinity()";
  }
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number,
                                 std::chars_format::scientific);
  return type + "(" + std::string(text, end.ptr) + ")";
}

std::string constant_text(const Scalar& node) {
  if (node.dtype == DType::boolean) {
    return node.integer != 0 ? "splat<int32_t>(-1)" : "mask{}";
  }
  if (is_half(node.dtype)) {
    return half_function("to", node.dtype) + "(splat<float>(" +
           number_text(DType::f32, node.number) + "))";
  }
  const std::string type = stored_type(node.dtype);
  if (is_float(node.dtype)) {
    return "splat<" + type + ">(" + number_text(node.dtype, node.number) + ")";
  }
  // The smallest integer has no literal of its own.
  if (node.integer == INT64_MIN) return "splat<int64_t>(INT64_MIN)";
  return "splat<" + type + ">(" + std::to_string(node.integer) + ")";
}

// The index with the vector's variable moved on by l lanes.
std::string lane_lambda(const PrintScope& scope, const Index& index) {
  const std::string v = "v" + std::to_string(scope.vector_variable);
  return "[=, first = " + v + "](int64_t l) { const int64_t " + v +
         " = first + l; return " + index.text() + "; }";
}

bool is_contiguous(const PrintScope& scope, const Index& index) {
  return index.coefficient(scope.vector_variable) == 1 &&
         !index.hides(scope.vector_variable);
}

// Lane by lane towards the front, as a flip leaves it.
bool is_reversed(const PrintScope& scope, const Index& index) {
  return index.coefficient(scope.vector_variable) == -1 &&
         !index.hides(scope.vector_variable);
}

// What a guarded load reads where the guard is true.
std::string guarded_text(const PrintScope& scope, const Scalar& node,
                         bool vectors) {
  const std::string from = scope.plan->program.buffers[node.buffer].name + ", ";
  const std::string guard = operand_text(scope, node.guard());
  const std::string active_lanes = vectors ? "lanes" : "Part{1}";
  const Index& index = node.index[0];
  const bool varies = vectors && index.uses(scope.vector_variable);
  if (node.is_indirect) {
    const std::string indirect_offset =
        operand_text(scope, node.indirect_offset());
    const std::string base =
        varies ? lane_lambda(scope, index)
               : "[=](int64_t) { return " + index.text() + "; }";
    // All lanes: outside of the loop over vectors it is read for that loop.
    return "gather_where(" + from + (vectors ? "lanes" : "Full{}") + ", " +
           guard + ", " + base + ", " + indirect_offset + ")";
  }
  if (!varies) {
    return "broadcast_where(" + from + index.text() + ", " + active_lanes +
           ", " + guard + ")";
  }
  if (is_contiguous(scope, index)) {
    return "load_where(" + from + index.text() + ", lanes, " + guard + ")";
  }
  return "gather_where(" + from + "lanes, " + guard + ", " +
         lane_lambda(scope, index) + ", i64v{})";
}

std::string load_text(const PrintScope& scope, const Scalar& node,
                      bool vectors) {
  const auto result = scope.results.find(node.buffer);
  if (node.index.empty()) return result->second;
  if (node.guarded) return guarded_text(scope, node, vectors);
  const Buffer& buffer = scope.plan->program.buffers[node.buffer];
  const Index& index = node.index[0];
  if (!vectors || !index.uses(scope.vector_variable)) {
    return "broadcast(" + buffer.name + " + " + index.text() + ")";
  }
  if (is_contiguous(scope, index)) {
    return "load(" + buffer.name + " + " + index.text() + ", lanes)";
  }
  if (is_reversed(scope, index)) {
    return "load_down(" + buffer.name + " + " + index.text() + ", lanes)";
  }
  return "gather(" + buffer.name + ", lanes, " + lane_lambda(scope, index) +
         ")";
}

std::string position_text(const PrintScope& scope, const Index& index,
                          bool vectors) {
  const int v = scope.vector_variable;
  if (!vectors || !index.uses(v)) return "splat<int64_t>(" + index.text() + ")";
  if (!index.hides(v)) {
    return "positions(" + index.text() + ", " +
           std::to_string(index.coefficient(v)) + ")";
  }
  return "each_lane(lanes, " + lane_lambda(scope, index) + ")";
}

std::string cast_text(DType to, DType from, const std::string& value) {
  if (is_half(from)) {
    return cast_text(to, DType::f32,
                     half_function("from", from) + "(" + value + ")");
  }
  if (is_half(to)) {
    return half_function("to", to) + "(" + cast_text(DType::f32, from, value) +
           ")";
  }
  if (to == from) return value;
  if (to == DType::boolean) return "narrow(" + value + " != 0)";
  if (from == DType::boolean) {
    return "convert<" + vector_type(to) + ">(-" + value + ")";
  }
  return "convert<" + vector_type(to) + ">(" + value + ")";
}

/// Whether the number is as large at any size: a symbolic one is no smaller
/// than the samples that code is printed at.
bool is_fixed(const PrintScope& scope, std::int64_t number) {
  return scope.plan->symbolic_loops.empty() || std::abs(number) < kSampleMin;
}

bool is_fixed(const PrintScope& scope, const Index& index) {
  std::map<int, LoopVar> variables;
  index.collect(variables);
  return is_fixed(scope, index.offset()) &&
         std::ranges::none_of(variables, [&](const auto& variable) {
           return scope.plan->symbolic_loops.contains(variable.first) ||
                  !is_fixed(scope, index.coefficient(variable.first));
         });
}

// A position or an integer in 32 bits, as the lanes of a truth value are; ""
// for anything else.
std::string small_text(const PrintScope& scope, ExprId id, bool vectors) {
  const Scalar& node = scope.plan->program.arena[id];
  const auto fits = [](std::int64_t number) {
    return number >= INT32_MIN / 2 && number <= INT32_MAX / 2;
  };
  if (node.op == ScalarOp::constant && node.dtype == DType::i64) {
    if (!fits(node.integer) || !is_fixed(scope, node.integer)) return "";
    return "splat<int32_t>(" + std::to_string(node.integer) + ")";
  }
  if (node.op != ScalarOp::position) return "";
  const Index& index = node.index[0];
  const auto [least, most] = index.range();
  const int v = scope.vector_variable;
  if (!fits(least) || !fits(most) || index.hides(v)) return "";
  if (!is_fixed(scope, index)) return "";
  if (!vectors || !index.uses(v)) {
    return "splat<int32_t>(" + index.text() + ")";
  }
  return "small_positions(" + index.text() + ", " +
         std::to_string(index.coefficient(v)) + ")";
}

// A comparison of positions, with no detour by 64 bits; "" for any other call.
std::string small_comparison(const PrintScope& scope, const Scalar& node,
                             bool vectors) {
  static const std::set<std::string> kComparisons = {"eq", "ne", "lt",
                                                     "le", "gt", "ge"};
  if (!kComparisons.contains(node.function)) return "";
  const std::string a = small_text(scope, node.arguments[0], vectors);
  const std::string b = small_text(scope, node.arguments[1], vectors);
  if (a.empty() || b.empty()) return "";
  return *spelled(Language::cpu, node.function, node.dtype, {a, b});
}

// Float32 that is rounded to a half and stays float32 need not be packed into
// 16 bits; "" for any other cast.
std::string nearest_text(const PrintScope& scope, const Scalar& node) {
  const ScalarArena& arena = scope.plan->program.arena;
  const Scalar& half = arena[node.arguments[0]];
  if (node.dtype != DType::f32 || half.op != ScalarOp::cast ||
      !is_half(half.dtype) || arena[half.arguments[0]].dtype != DType::f32) {
    return "";
  }
  const auto name = scope.names.find(half.arguments[0]);
  if (name == scope.names.end()) return "";
  return half_function("nearest", half.dtype) + "(" + name->second + ")";
}

// Whether no multiply-add can be made of that operand, or of the operation and
// what reads it, so that the prelude need not keep them apart.
bool keeps_apart(const PrintScope& scope, ExprId id) {
  const Scalar& node = scope.plan->program.arena[id];
  if (node.function == "mul") return scope.halved.contains(id);
  return std::ranges::none_of(node.arguments, [&](ExprId argument) {
    const Scalar& operand = scope.plan->program.arena[argument];
    const bool is_reduced =
        operand.op == ScalarOp::load && operand.index.empty();
    return operand.op == ScalarOp::call || is_reduced;
  });
}

std::string call_text(const PrintScope& scope, ExprId id, bool vectors) {
  const Scalar& node = scope.plan->program.arena[id];
  const std::string small = small_comparison(scope, node, vectors);
  if (!small.empty()) return small;
  std::vector<std::string> arguments;
  for (const ExprId id : node.arguments) {
    arguments.push_back(operand_text(scope, id));
  }
  if (node.function == "logical_not" || node.function == "bitwise_not") {
    return "~" + arguments[0];
  }
  // Of floating-point numbers, the prelude's functions of these names round.
  const bool rounds = is_float(node.dtype) &&
                      (node.function == "add" || node.function == "sub" ||
                       node.function == "mul") &&
                      !keeps_apart(scope, id);
  const auto text =
      spelled(Language::cpu, node.function, node.dtype, arguments);
  if (text && !rounds) {
    // Comparing gives lanes as wide as what is compared.
    return node.dtype == DType::boolean ? "narrow(" + *text + ")" : *text;
  }
  // What it finds is told by kernel_function (print.cpp).
  if (node.function == "in_bounds")
    arguments.insert(arguments.begin(), "&outside");
  std::string call = node.function + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    call += (i == 0 ? "" : ", ") + arguments[i];
  }
  return call + ")";
}

}  // namespace

std::string stored_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::i64:
      return "int64_t";
    case DType::i32:
      return "int32_t";
    case DType::boolean:
      return "uint8_t";
    case DType::f16:
    case DType::bf16:
      return "uint16_t";
    default:
      return "float";
  }
}

std::string vector_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64v";
    case DType::i64:
      return "i64v";
    case DType::i32:
      return "i32v";
    case DType::boolean:
      return "mask";
    case DType::f16:
    case DType::bf16:
      return "u16v";
    default:
      return "f32v";
  }
}

std::set<ExprId> halved_expressions(const ScalarArena& arena,
                                    const std::vector<ExprId>& roots) {
  std::set<ExprId> halved;
  std::set<ExprId> others(roots.begin(), roots.end());
  for (const ExprId id : arena.reachable(roots)) {
    const Scalar& node = arena[id];
    const bool to_half = node.op == ScalarOp::cast && is_half(node.dtype);
    auto& readers = to_half ? halved : others;
    readers.insert(node.arguments.begin(), node.arguments.end());
  }
  std::erase_if(halved, [&](ExprId id) { return others.contains(id); });
  return halved;
}

std::string operand_text(const PrintScope& scope, ExprId id) {
  const Scalar& node = scope.plan->program.arena[id];
  if (node.op == ScalarOp::constant) return constant_text(node);
  if (node.op == ScalarOp::load && node.index.empty()) {
    return scope.results.at(node.buffer);
  }
  return scope.names.at(id);
}

std::string expression_text(const PrintScope& scope, ExprId id, bool vectors) {
  const ScalarArena& arena = scope.plan->program.arena;
  const Scalar& node = arena[id];
  switch (node.op) {
    case ScalarOp::constant:
      return constant_text(node);
    case ScalarOp::load:
      return load_text(scope, node, vectors);
    case ScalarOp::position:
      return position_text(scope, node.index[0], vectors);
    case ScalarOp::cast:
      if (std::string nearest = nearest_text(scope, node); !nearest.empty()) {
        return nearest;
      }
      return cast_text(node.dtype, arena[node.arguments[0]].dtype,
                       operand_text(scope, node.arguments[0]));
    case ScalarOp::call:
      break;
  }
  return call_text(scope, id, vectors);
}

std::string store_text(const PrintScope& scope, const std::string& pointer,
                       const Index& offset, const std::string& value) {
  if (!offset.uses(scope.vector_variable)) {
    return "store(" + pointer + " + " + offset.text() + ", " + value +
           ", Part{1});";
  }
  if (is_contiguous(scope, offset)) {
    return "store(" + pointer + " + " + offset.text() + ", " + value +
           ", lanes);";
  }
  if (is_reversed(scope, offset)) {
    return "store_down(" + pointer + " + " + offset.text() + ", " + value +
           ", lanes);";
  }
  return "scatter(" + pointer + ", " + value + ", lanes, " +
         lane_lambda(scope, offset) + ");";
}

std::string add_text(const PrintScope& scope, const std::string& pointer,
                     const Index& offset, const std::string& indirect_offset,
                     bool is_one, const std::string& value) {
  if (is_one && is_contiguous(scope, offset)) {
    return "add_row(" + pointer + " + " + offset.text() + ", " +
           indirect_offset + ", " + value + ", lanes);";
  }
  const std::string at = offset.uses(scope.vector_variable)
                             ? lane_lambda(scope, offset)
                             : "[=](int64_t) { return " + offset.text() + "; }";
  return "add_lanes(" + pointer + ", " + indirect_offset + ", " + value +
         ", lanes, " + at + ");";
}

std::string reducer(const Program& program, const Stage& stage) {
  const DType dtype = program.arena[stage.value].dtype;
  const std::string type = "<" + vector_type(dtype) + ">";
  const bool truth = dtype == DType::boolean;
  if (stage.is_scan) {
    return (stage.reduction == Reduction::sum ? "RunningSum"
                                              : "RunningProduct") +
           type;
  }
  switch (stage.reduction) {
    case Reduction::sum:
      return "Sum" + type;
    case Reduction::prod:
      return "Product" + type;
    case Reduction::max:
      return (truth ? "Any" : "Max") + type;
    case Reduction::min:
      return (truth ? "All" : "Min") + type;
    case Reduction::argmax:
      return "ArgMax" + type;
    case Reduction::argmin:
      break;
  }
  return "ArgMin" + type;
}

}  // namespace weft
