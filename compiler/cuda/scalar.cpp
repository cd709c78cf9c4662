#include "compiler/cuda/scalar.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "compiler/cuda/functions.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

std::string number_text(DType dtype, double number) {
  if (std::isnan(number)) return "NOT_A_NUMBER";
  if (std::isinf(number)) return number < 0 ? "-INFINITE" : "INFINITE";
  char text[64];
  const bool single = dtype != DType::f64;
  const auto end = single ? std::to_chars(text, text + sizeof text,
                                          static_cast<float>(number))
                          : std::to_chars(text, text + sizeof text, number);
  std::string out(text, end.ptr);
  if (out == "inf") return "INFINITE";
  if (out == "-inf") return "-INFINITE";
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  if (single) out += "f";
  return out[0] == '-' ? "(" + out + ")" : out;
}

std::string constant_text(const Scalar& node) {
  if (node.dtype == DType::boolean) return node.integer != 0 ? "true" : "false";
  if (is_float(node.dtype)) return number_text(node.dtype, node.number);
  // The smallest integers have no literals of their own.
  if (node.integer == INT64_MIN) return "(-9223372036854775807ll - 1)";
  if (node.integer == INT32_MIN) return "(-2147483647 - 1)";
  const std::string text =
      std::to_string(node.integer) + (node.dtype == DType::i64 ? "ll" : "");
  return node.integer < 0 ? "(" + text + ")" : text;
}

std::string atom_text(const Index::Atom& atom,
                      const std::map<int, std::string>& variables) {
  if (atom.kind == Index::AtomKind::variable) {
    return variables.at(atom.variable.id);
  }
  std::string inner = cuda_index(atom.inner, variables);
  if (inner.find(' ') != std::string::npos) inner = "(" + inner + ")";
  const char* sign = atom.kind == Index::AtomKind::quotient ? " / " : " % ";
  return inner + sign + std::to_string(atom.divisor);
}

std::string element_text(const CudaScope& scope, ExprId id) {
  const auto found = scope.at_hand.find(id);
  if (found != scope.at_hand.end()) return found->second;
  const Scalar& node = scope.program->arena[id];
  std::string at = cuda_index(node.index[0], scope.variables);
  if (node.is_indirect)
    at += " + " + cuda_operand(scope, node.indirect_offset());
  return scope.program->buffers[node.buffer].name + "[" + at + "]";
}

std::string load_text(const CudaScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  if (node.index.empty()) return scope.results.at(node.buffer);
  const std::string element = element_text(scope, id);
  if (!node.guarded) return element;
  return cuda_operand(scope, node.guard()) + " ? " + element + " : " + "(" +
         cuda_type(node.dtype) + ")0";
}

bool compares(const std::string& function) {
  static const std::set<std::string> names = {"eq", "ne", "lt",
                                              "le", "gt", "ge"};
  return names.contains(function);
}

// Positions are compared as they are; for arithmetic they get the 64 bits that
// they have by type.
std::string argument_text(const CudaScope& scope, const Scalar& call,
                          ExprId id) {
  const Scalar& node = scope.program->arena[id];
  const std::string text = cuda_operand(scope, id);
  if (compares(call.function)) {
    const bool small = node.op == ScalarOp::constant &&
                       node.dtype == DType::i64 &&
                       std::abs(node.integer) < INT32_MAX;
    return small ? std::to_string(node.integer) : text;
  }
  return node.op == ScalarOp::position ? "(long long)" + text : text;
}

std::string call_text(const CudaScope& scope, const Scalar& node) {
  std::vector<std::string> arguments;
  for (const ExprId id : node.arguments) {
    arguments.push_back(argument_text(scope, node, id));
  }
  DType dtype = node.dtype;
  if (dtype == DType::boolean && !node.arguments.empty()) {
    dtype = scope.program->arena[node.arguments[0]].dtype;
  }
  auto text = cuda_call(node.function, dtype, arguments, *scope.helpers);
  if (!text) throw Unsupported{node.function + " for cuda"};
  return *text;
}

int step_of(const Index::Atom& atom, int lane, std::int64_t vector_width) {
  if (atom.kind == Index::AtomKind::variable) {
    return atom.variable.id == lane ? 1 : 0;
  }
  const int inner = step_along(atom.inner, lane, vector_width);
  if (inner == 0) return 0;
  const bool whole = inner == 1 && atom.divisor % vector_width == 0 &&
                     is_aligned(atom.inner, lane, vector_width);
  if (!whole) return -1;
  return atom.kind == Index::AtomKind::quotient ? 0 : 1;
}

}  // namespace

std::string cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::i64:
      return "long long";
    case DType::i32:
      return "int";
    case DType::boolean:
      return "bool";
    case DType::f16:
      return "Half";
    case DType::bf16:
      return "Brain";
    default:
      return "float";
  }
}

std::string cuda_index(const Index& index,
                       const std::map<int, std::string>& variables) {
  std::string text;
  for (const Index::Term& term : index.terms()) {
    const std::int64_t c = term.coefficient;
    std::string atom = atom_text(*term.atom, variables);
    const bool product = std::abs(c) != 1;
    const bool negative = c < 0;
    if (product || negative) {
      if (atom.find(' ') != std::string::npos) atom = "(" + atom + ")";
      if (product) atom += " * " + std::to_string(std::abs(c));
    }
    if (text.empty()) {
      text = (negative ? "-" : "") + atom;
    } else {
      text += (negative ? " - " : " + ") + atom;
    }
  }
  if (text.empty()) return std::to_string(index.offset());
  if (index.offset() > 0) text += " + " + std::to_string(index.offset());
  if (index.offset() < 0) text += " - " + std::to_string(-index.offset());
  return text;
}

std::string cuda_operand(const CudaScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  if (node.op == ScalarOp::constant) return constant_text(node);
  if (node.op == ScalarOp::load && node.index.empty()) {
    return scope.results.at(node.buffer);
  }
  return scope.names.at(id);
}

std::string cuda_expression(const CudaScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  switch (node.op) {
    case ScalarOp::constant:
      return constant_text(node);
    case ScalarOp::load:
      return load_text(scope, id);
    case ScalarOp::position:
      return cuda_index(node.index[0], scope.variables);
    case ScalarOp::cast: {
      const std::string value = cuda_operand(scope, node.arguments[0]);
      if (node.dtype == DType::boolean) return value + " != 0";
      return "(" + cuda_type(node.dtype) + ")" + value;
    }
    case ScalarOp::call:
      break;
  }
  return call_text(scope, node);
}

std::string cuda_variable_type(const CudaScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  return node.op == ScalarOp::position ? scope.index_type
                                       : cuda_type(node.dtype);
}

int step_along(const Index& index, int lane, std::int64_t vector_width) {
  int step = 0;
  for (const Index::Term& term : index.terms()) {
    const int own = step_of(*term.atom, lane, vector_width);
    if (own == 0) continue;
    // Two parts that move are not followed further.
    if (own < 0 || step != 0 || term.coefficient != 1) return -1;
    step = 1;
  }
  return step;
}

bool is_aligned(const Index& index, int lane, std::int64_t vector_width) {
  if (index.offset() % vector_width != 0) return false;
  for (const Index::Term& term : index.terms()) {
    if (term.coefficient % vector_width == 0) continue;
    const Index::Atom& atom = *term.atom;
    if (atom.kind == Index::AtomKind::variable && atom.variable.id == lane) {
      continue;
    }
    const bool whole = atom.kind == Index::AtomKind::remainder &&
                       atom.divisor % vector_width == 0 &&
                       is_aligned(atom.inner, lane, vector_width);
    if (!whole) return false;
  }
  return true;
}

}  // namespace weft
