#include "compiler/loops/scalar.hpp"

#include <bit>
#include <cmath>
#include <set>

namespace weft {

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

bool is_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || is_half(dtype);
}

double as_half(DType dtype, double number) {
  if (number == 0 || !std::isfinite(number)) return number;
  const bool brain = dtype == DType::bf16;
  const int digits = brain ? 8 : 11;
  const double most = brain ? 0x1.fep127 : 65504;
  int exponent = 0;
  std::frexp(number, &exponent);
  exponent = std::max(exponent, brain ? -125 : -13);
  const double nearest = std::ldexp(
      std::nearbyint(std::ldexp(number, digits - exponent)), exponent - digits);
  return std::abs(nearest) > most ? std::copysign(INFINITY, number) : nearest;
}

ExprId ScalarArena::intern(Scalar node) {
  std::string key = std::to_string(static_cast<int>(node.op)) + "|" +
                    std::to_string(static_cast<int>(node.dtype)) + "|" +
                    std::to_string(std::bit_cast<std::int64_t>(node.number)) +
                    "|" + std::to_string(node.integer) + "|" +
                    std::to_string(node.buffer) + "|" + node.function +
                    (node.guarded ? "?" : "") + (node.is_indirect ? "@" : "");
  for (const Index& index : node.index) key += "|" + index.key();
  for (const ExprId argument : node.arguments) {
    key += ";" + std::to_string(argument);
  }
  const auto [at, fresh] = known_.emplace(key, nodes_.size());
  if (fresh) nodes_.push_back(std::move(node));
  return at->second;
}

ExprId ScalarArena::constant(DType dtype, double number) {
  if (!is_float(dtype)) {
    if (dtype == DType::boolean) return integer(dtype, number != 0);
    return integer(dtype, static_cast<std::int64_t>(number));
  }
  Scalar node;
  node.dtype = dtype;
  node.number = is_half(dtype) ? as_half(dtype, number) : number;
  return intern(std::move(node));
}

ExprId ScalarArena::integer(DType dtype, std::int64_t number) {
  if (dtype == DType::f64) return constant(dtype, static_cast<double>(number));
  // At once: beyond 2^53 a double would round it a first time.
  if (is_float(dtype)) return constant(dtype, static_cast<float>(number));
  Scalar node;
  node.dtype = dtype;
  node.integer = dtype == DType::boolean ? number != 0 : number;
  return intern(std::move(node));
}

ExprId ScalarArena::count(DType dtype, std::int64_t number) {
  Scalar node;
  node.op = ScalarOp::cast;
  node.dtype = dtype;
  node.arguments = {integer(DType::i64, number)};
  return intern(std::move(node));
}

ExprId ScalarArena::load(DType dtype, int buffer, std::vector<Index> index) {
  Scalar node;
  node.op = ScalarOp::load;
  node.dtype = dtype;
  node.buffer = buffer;
  node.index = std::move(index);
  return intern(std::move(node));
}

ExprId ScalarArena::guarded_load(ExprId load, ExprId guard) {
  Scalar node = nodes_[load];
  if (node.guarded) {
    ExprId& both = node.arguments.front();
    if (both == guard) return load;
    both = call("logical_and", DType::boolean, {both, guard});
  } else {
    node.guarded = true;
    node.arguments.insert(node.arguments.begin(), guard);
  }
  return intern(std::move(node));
}

ExprId ScalarArena::indirect_load(DType dtype, int buffer, const Index& index,
                                  ExprId guard, ExprId offset) {
  Scalar node;
  node.op = ScalarOp::load;
  node.dtype = dtype;
  node.buffer = buffer;
  node.index = {index};
  node.guarded = true;
  node.is_indirect = true;
  node.arguments = {guard, offset};
  return intern(std::move(node));
}

ExprId ScalarArena::position(const Index& index) {
  if (index.is_constant()) return integer(DType::i64, index.offset());
  Scalar node;
  node.op = ScalarOp::position;
  node.dtype = DType::i64;
  node.index = {index};
  return intern(std::move(node));
}

ExprId ScalarArena::cast(DType dtype, ExprId value) {
  const Scalar& from = nodes_[value];
  if (from.dtype == dtype) return value;
  if (from.op == ScalarOp::cast && is_half(dtype) && from.dtype == DType::f32 &&
      nodes_[from.arguments[0]].dtype == dtype) {
    return from.arguments[0];
  }
  if (from.op == ScalarOp::cast && from.dtype == DType::i64) {
    const Scalar& whole = nodes_[from.arguments[0]];  // a count's
    if (whole.op == ScalarOp::constant && whole.dtype == DType::i64) {
      return count(dtype, whole.integer);
    }
  }
  if (from.op == ScalarOp::constant) {
    if (!is_float(from.dtype)) return integer(dtype, from.integer);
    if (dtype == DType::boolean) return integer(dtype, from.number != 0);
    if (is_float(dtype)) return constant(dtype, from.number);
  }
  Scalar node;
  node.op = ScalarOp::cast;
  node.dtype = dtype;
  node.arguments = {value};
  return intern(std::move(node));
}

ExprId ScalarArena::call(std::string function, DType dtype,
                         std::vector<ExprId> arguments) {
  Scalar node;
  node.op = ScalarOp::call;
  node.dtype = dtype;
  node.function = std::move(function);
  node.arguments = std::move(arguments);
  return intern(std::move(node));
}

ExprId ScalarArena::with_arguments(ExprId id, std::vector<ExprId> arguments) {
  Scalar node = nodes_[id];
  node.arguments = std::move(arguments);
  return intern(std::move(node));
}

ExprId ScalarArena::guarded(ExprId root, ExprId guard) {
  std::unordered_map<ExprId, ExprId> replaced;
  for (const ExprId id : reachable({root})) {
    std::vector<ExprId> arguments = nodes_[id].arguments;
    for (ExprId& argument : arguments) argument = replaced.at(argument);
    ExprId fresh = with_arguments(id, std::move(arguments));
    if (nodes_[id].op == ScalarOp::load) fresh = guarded_load(fresh, guard);
    replaced[id] = fresh;
  }
  return replaced.at(root);
}

ExprId ScalarArena::substitute(ExprId root, const IndexMap& map) {
  std::unordered_map<ExprId, ExprId> replaced;
  for (const ExprId id : reachable({root})) {
    Scalar node = nodes_[id];
    for (Index& index : node.index) index = index.substitute(map);
    for (ExprId& argument : node.arguments) argument = replaced.at(argument);
    const bool number = node.op == ScalarOp::position;
    replaced[id] = number ? position(node.index[0]) : intern(std::move(node));
  }
  return replaced.at(root);
}

std::vector<ExprId> ScalarArena::reachable(
    const std::vector<ExprId>& roots) const {
  // Arguments are interned before their users: ascending ids are an order.
  std::set<ExprId> seen;
  std::vector<ExprId> work = roots;
  while (!work.empty()) {
    const ExprId id = work.back();
    work.pop_back();
    if (!seen.insert(id).second) continue;
    for (const ExprId argument : nodes_[id].arguments) work.push_back(argument);
  }
  return {seen.begin(), seen.end()};
}

Index ScalarArena::main_read(ExprId value) const {
  return main_read(value,
                   [](const Index& index) { return elements_of(index); });
}

Index ScalarArena::main_read(
    ExprId value,
    const std::function<std::int64_t(const Index&)>& elements) const {
  Index best;
  std::int64_t most = -1;
  for (const ExprId id : reachable({value})) {
    const Scalar& node = nodes_[id];
    if (node.op != ScalarOp::load || node.index.size() != 1) continue;
    const std::int64_t count = elements(node.index[0]);
    if (count <= most) continue;
    most = count;
    best = node.index[0];
  }
  return best;
}

}  // namespace weft
