// Reading where it may be outside: guards, left away where none is needed.
#include "compiler/lowering/lower.hpp"

namespace weft {

Guard Lowering::inside(const Index& index, std::int64_t extent) {
  const auto [least, most] = index.range();
  if (most < 0 || least >= extent) {
    return arena().integer(DType::boolean, 0);
  }
  const ExprId position = arena().position(index);
  const auto compare = [&](const char* function, std::int64_t bound) {
    return arena().call(function, DType::boolean,
                        {position, arena().integer(DType::i64, bound)});
  };
  Guard guard;
  if (least < 0) guard = compare("ge", 0);
  if (most >= extent) guard = both(guard, compare("lt", extent));
  return guard;
}

Guard Lowering::inside(const Position& at, const Shape& shape) {
  Guard guard;
  for (std::size_t i = 0; i < at.size(); ++i) {
    guard = both(guard, inside(at[i], shape[i]));
  }
  return guard;
}

Guard Lowering::both(Guard a, Guard b) {
  if (!a || !b) return a ? a : b;
  if (is_never(a) || *a == *b) return a;
  if (is_never(b)) return b;
  return arena().call("logical_and", DType::boolean, {*a, *b});
}

bool Lowering::is_never(Guard guard) {
  if (!guard) return false;
  const Scalar& node = arena()[*guard];
  return node.op == ScalarOp::constant && node.integer == 0;
}

// Where the guard holds, the place is inside. Views simplify by what they know
// of a place, so they are shown a variable that is never outside.
ExprId Lowering::read_inside(const Virtual& value, const Position& at) {
  Position shown = at;
  IndexMap meant;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const std::int64_t extent = value.shape()[i];
    const auto [least, most] = at[i].range();
    if (least >= 0 && most < extent) continue;
    const LoopVar variable = new_variable(extent);
    shown[i] = variable;
    meant[variable.id] = at[i];
  }
  return arena().substitute(value.at(shown), meant);
}

ExprId Lowering::read_if(const Virtual& value, const Position& at, Guard guard,
                         ExprId otherwise) {
  if (is_never(guard)) return otherwise;
  if (!guard) return value.at(at);
  const ExprId bare = read_inside(value, at);
  const ExprId guarded = arena().guarded(bare, *guard);
  // A guarded load is 0 by itself where it does not read, in any type.
  const bool zero = otherwise == arena().integer(value.dtype(), 0);
  const Scalar& node = arena()[guarded];
  const Scalar& read =
      node.op == ScalarOp::cast ? arena()[node.arguments[0]] : node;
  if (zero && read.op == ScalarOp::load) return guarded;
  return arena().call("select", value.dtype(), {*guard, guarded, otherwise});
}

}  // namespace weft
