#include "compiler/triton/scalar.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/loops/width.hpp"
#include "compiler/triton/functions.hpp"

namespace weft {
namespace {

std::string number_text(double number) {
  if (std::isnan(number)) return "float(\"nan\")";
  if (std::isinf(number)) {
    return number < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  }
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number);
  std::string out(text, end.ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return number < 0 || std::signbit(number) ? "(" + out + ")" : out;
}

std::string atom_text(const Index::Atom& atom,
                      const TritonVariables& variables) {
  if (atom.kind == Index::AtomKind::variable) {
    return variables.at(atom.variable.id).name;
  }
  const std::string inner = "(" + triton_index(atom.inner, variables) + ")";
  const char* sign = atom.kind == Index::AtomKind::quotient ? " // " : " % ";
  return "(" + inner + sign + std::to_string(atom.divisor) + ")";
}

// Bits of the dimensions that an atom spreads over.
int spread_of(const Index::Atom& atom, const TritonVariables& variables) {
  const auto bits = [&](int id) {
    const Axis axis = variables.at(id).axis;
    return axis == Axis::rows ? 1 : axis == Axis::columns ? 2 : 0;
  };
  if (atom.kind == Index::AtomKind::variable) return bits(atom.variable.id);
  std::map<int, LoopVar> inside;
  atom.inner.collect(inside);
  int spread = 0;
  for (const auto& [id, variable] : inside) spread |= bits(id);
  return spread;
}

/// The terms that are plain numbers.
Index number_of(const Index& index, const TritonVariables& variables) {
  Index number;
  for (const Index::Term& term : index.terms()) {
    const Index::Atom& atom = *term.atom;
    if (atom.kind == Index::AtomKind::variable &&
        variables.at(atom.variable.id).axis == Axis::none) {
      number = number + Index(atom.variable) * term.coefficient;
    }
  }
  return number;
}

void add_term(std::string& text, const Index::Term& term,
              const TritonVariables& variables) {
  const std::int64_t c = term.coefficient;
  text += text.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
  text += atom_text(*term.atom, variables);
  if (std::abs(c) != 1) text += " * " + std::to_string(std::abs(c));
}

std::string load_text(const TritonScope& scope, const Scalar& node) {
  if (node.index.empty()) return scope.results.at(node.buffer);
  const Buffer& buffer = scope.program->buffers[node.buffer];
  std::string address =
      triton_address(buffer.name, node.index[0], scope.variables);
  std::set<int> variables = own_variables(node);
  for (const ExprId id : node.arguments) {
    variables.merge(all_variables(scope.program->arena, id));
  }
  std::string mask = triton_mask(scope.variables, variables);
  if (node.is_indirect)
    address += " + " + triton_operand(scope, node.indirect_offset());
  if (node.guarded) {
    const std::string guard = triton_operand(scope, node.guard());
    mask = mask.empty() ? guard : "(" + mask + ") & " + guard;
  }
  if (mask.empty()) return "tl.load(" + address + ")";
  // One place, read or not for each of a block, were it of one element: it
  // becomes a block, too.
  const auto spreads = [&](int id) {
    return scope.variables.at(id).axis != Axis::none;
  };
  if (!node.is_indirect && std::ranges::none_of(own_variables(node), spreads)) {
    address += std::ranges::any_of(variables, spreads)
                   ? " + tl.where(" + mask + ", 0, 0)"
                   : " + tl.zeros((1, 1), tl.int32)";
  }
  return "tl.load(" + address + ", mask=" + mask + ", other=0)";
}

std::string full_text(const std::string& value, DType type) {
  return "tl.full((1, 1), " + value + ", " + triton_type(type) + ")";
}

std::string cast_text(DType to, const std::string& value) {
  if (to == DType::boolean) return value + " != 0";
  return value + ".to(" + triton_type(to) + ")";
}

bool is_negative_zero(const Scalar& node) {
  return node.op == ScalarOp::constant && is_float(node.dtype) &&
         node.number == 0 && std::signbit(node.number);
}

bool compares(const std::string& function) {
  static const std::set<std::string> names = {"eq", "ne", "lt",
                                              "le", "gt", "ge"};
  return names.contains(function);
}

// Positions are compared as they are, mostly in 32 bits; for arithmetic they
// get the 64 that they have by type.
std::string argument_text(const TritonScope& scope, const Scalar& call,
                          ExprId id) {
  const Scalar& node = scope.program->arena[id];
  const std::string text = triton_operand(scope, id);
  if (compares(call.function)) {
    const bool small = node.op == ScalarOp::constant &&
                       node.dtype == DType::i64 &&
                       std::abs(node.integer) < INT32_MAX;
    return small ? std::to_string(node.integer) : text;
  }
  return node.op == ScalarOp::position ? text + ".to(tl.int64)" : text;
}

bool is_operator(const std::string& function) {
  static const std::set<std::string> names = {"add", "sub", "mul", "product",
                                              "div"};
  return names.contains(function) || compares(function);
}

std::string call_text(const TritonScope& scope, const Scalar& node) {
  const ScalarArena& arena = scope.program->arena;
  std::vector<std::string> arguments;
  for (const ExprId id : node.arguments) {
    arguments.push_back(argument_text(scope, node, id));
  }
  // A function's first argument has methods: a number before a tensor is one
  // of one element. Operators take it as it is.
  if (!node.arguments.empty() && is_plain_number(arena[node.arguments[0]]) &&
      !is_operator(node.function)) {
    arguments[0] = "tl.full((1, 1), " + arguments[0] + ", tl.float32)";
  }
  DType dtype = node.dtype;
  if (dtype == DType::boolean && !node.arguments.empty()) {
    dtype = arena[node.arguments[0]].dtype;
  }
  auto text = triton_call(node.function, dtype, arguments, *scope.helpers);
  if (!text) throw Unsupported{node.function + " for triton"};
  return *text;
}

}  // namespace

std::string triton_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "tl.float64";
    case DType::i64:
      return "tl.int64";
    case DType::i32:
      return "tl.int32";
    case DType::boolean:
      return "tl.int1";
    case DType::f16:
      return "tl.float16";
    case DType::bf16:
      return "tl.bfloat16";
    default:
      return "tl.float32";
  }
}

std::string torch_type(DType dtype) {
  return "torch." + std::string(dtype_name(dtype));
}

std::string triton_index(const Index& index, const TritonVariables& variables) {
  std::string text;
  for (int spread = 0; spread < 4; ++spread) {
    std::string part;
    std::size_t count = 0;
    for (const Index::Term& term : index.terms()) {
      if (spread_of(*term.atom, variables) != spread) continue;
      add_term(part, term, variables);
      ++count;
    }
    if (part.empty()) continue;
    if (text.empty()) {
      text = part;
    } else if (part[0] == '-' && count == 1) {
      text += " - " + part.substr(1);
    } else {
      text += " + (" + part + ")";
    }
    // Parentheses keep what follows from being added one by one.
    if (count > 1) text = "(" + text + ")";
  }
  if (text.empty()) return std::to_string(index.offset());
  if (index.offset() > 0) text += " + " + std::to_string(index.offset());
  if (index.offset() < 0) text += " - " + std::to_string(-index.offset());
  return text;
}

std::string triton_address(const std::string& tensor, const Index& index,
                           const TritonVariables& variables) {
  const Index number = number_of(index, variables);
  const Index rest = index - number;
  // Where the whole needs 64 bits, numbers have them.
  const bool fits =
      !fits_32_bits(index) || (fits_32_bits(number) && fits_32_bits(rest));
  if (number.is_constant() || rest.is_constant() || !fits) {
    return tensor + " + (" + triton_index(index, variables) + ")";
  }
  return tensor + " + " + triton_index(number, variables) + " + (" +
         triton_index(rest, variables) + ")";
}

std::string triton_mask(const TritonVariables& variables,
                        const std::set<int>& used) {
  std::set<std::string> masks;
  for (const int id : used) {
    const auto found = variables.find(id);
    if (found != variables.end() && !found->second.mask.empty()) {
      masks.insert(found->second.mask);
    }
  }
  std::string text;
  for (const std::string& mask : masks) {
    text += (text.empty() ? "" : " & ") + mask;
  }
  return text;
}

bool is_plain_number(const Scalar& node) {
  return node.op == ScalarOp::constant && node.dtype == DType::f32 &&
         !is_negative_zero(node);
}

std::string triton_constant(const Scalar& node) {
  if (is_plain_number(node)) return number_text(node.number);
  // Triton makes 0 of the number -0.0.
  if (is_negative_zero(node) && node.dtype == DType::f32) {
    return full_text("-2147483648", DType::i32) +
           ".to(tl.float32, bitcast=True)";
  }
  if (is_negative_zero(node) && node.dtype == DType::f64) {
    return full_text("-9223372036854775808", DType::i64) +
           ".to(tl.float64, bitcast=True)";
  }
  const std::string value = is_float(node.dtype) ? number_text(node.number)
                                                 : std::to_string(node.integer);
  return full_text(value, node.dtype);
}

std::string triton_operand(const TritonScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  if (node.op == ScalarOp::constant) return triton_constant(node);
  if (node.op == ScalarOp::load && node.index.empty()) {
    return scope.results.at(node.buffer);
  }
  return scope.names.at(id);
}

std::string triton_expression(const TritonScope& scope, ExprId id) {
  const Scalar& node = scope.program->arena[id];
  switch (node.op) {
    case ScalarOp::constant:
      return triton_constant(node);
    case ScalarOp::load:
      return load_text(scope, node);
    case ScalarOp::position: {
      const Index& index = node.index[0];
      const std::string text = triton_index(index, scope.variables);
      if (index.is_constant()) return "tl.full((1, 1), " + text + ", tl.int32)";
      return text;
    }
    case ScalarOp::cast: {
      const Scalar& from = scope.program->arena[node.arguments[0]];
      const bool is_bare = is_plain_number(from);  // which has no .to()
      return cast_text(node.dtype,
                       is_bare ? full_text(number_text(from.number), DType::f32)
                               : triton_operand(scope, node.arguments[0]));
    }
    case ScalarOp::call:
      break;
  }
  return call_text(scope, node);
}

std::set<int> own_variables(const Scalar& node) {
  std::map<int, LoopVar> found;
  for (const Index& index : node.index) index.collect(found);
  std::set<int> ids;
  for (const auto& [id, variable] : found) ids.insert(id);
  return ids;
}

std::set<int> all_variables(const ScalarArena& arena, ExprId id) {
  std::set<int> ids;
  for (const ExprId each : arena.reachable({id})) {
    ids.merge(own_variables(arena[each]));
  }
  return ids;
}

}  // namespace weft
