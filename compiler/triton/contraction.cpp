// Which reductions are sums of products, and which factor is which.
#include <algorithm>
#include <set>

#include "compiler/triton/dot.hpp"

namespace weft {
namespace {

bool calls(const Scalar& node, std::string_view function) {
  return node.op == ScalarOp::call && node.function == function;
}

bool is_zero(const Scalar& node) {
  return node.op == ScalarOp::constant && node.integer == 0 && node.number == 0;
}

// What must hold for the factor not to be 0; nothing if nobody knows.
std::optional<ExprId> guard_of(const ScalarArena& arena, ExprId factor) {
  const Scalar& node = arena[factor];
  if (node.op == ScalarOp::cast) return guard_of(arena, node.arguments[0]);
  if (node.guarded) return node.guard();
  if (calls(node, "select") && is_zero(arena[node.arguments[2]])) {
    return node.arguments[0];
  }
  return std::nullopt;
}

bool implies(const ScalarArena& arena, ExprId condition, ExprId other) {
  const Scalar& node = arena[condition];
  return condition == other || (calls(node, "logical_and") &&
                                (implies(arena, node.arguments[0], other) ||
                                 implies(arena, node.arguments[1], other)));
}

// Whether one of the factors is 0 wherever that guard does not hold.
bool is_zero_without(ExprId guard, const ScalarArena& arena, ExprId a,
                     ExprId b) {
  const auto asks = [&](ExprId factor) {
    const auto own = guard_of(arena, factor);
    return own && implies(arena, *own, guard);
  };
  if (asks(a) || asks(b)) return true;
  const Scalar& node = arena[guard];
  return calls(node, "logical_and") &&
         is_zero_without(node.arguments[0], arena, a, b) &&
         is_zero_without(node.arguments[1], arena, a, b);
}

}  // namespace

bool lies_along(const ScalarArena& arena, ExprId factor,
                const std::vector<LoopVar>& reduced) {
  return std::ranges::all_of(arena.reachable({factor}), [&](ExprId id) {
    const Scalar& node = arena[id];
    if (node.op != ScalarOp::load || node.index.empty()) return true;
    const std::int64_t step = node.index[0].coefficient(reduced.back().id);
    return step == 0 || step == 1;
  });
}

std::optional<Contraction> contraction_of(
    const Program& program, const Stage& stage,
    const std::vector<LoopVar>& outer, const TritonProductChoices& choices,
    const std::map<int, std::int64_t>& symbolic_loops) {
  Contraction found;
  ExprId value = stage.value;
  if (calls(program.arena[value], "select")) {
    const std::vector<ExprId>& choice = program.arena[value].arguments;
    if (!is_zero(program.arena[choice[2]])) return std::nullopt;
    found.guard = choice[0];
    value = choice[1];
  }
  const Scalar& product = program.arena[value];
  if (!stage.is_reduction || stage.reduction != Reduction::sum ||
      stage.inner.empty() ||
      !(calls(product, "product") || calls(product, "mul")) ||
      product.dtype != DType::f32) {
    return std::nullopt;
  }
  found.a = product.arguments[0];
  found.b = product.arguments[1];
  found.reduced = stage.inner;
  if (found.guard &&
      !is_zero_without(*found.guard, program.arena, found.a, found.b)) {
    return std::nullopt;
  }
  const std::set<int> of_a = all_variables(program.arena, found.a);
  const std::set<int> of_b = all_variables(program.arena, found.b);
  for (const LoopVar& v : outer) {
    const bool a = of_a.contains(v.id);
    const bool b = of_b.contains(v.id);
    (a == b ? found.batch : a ? found.rows : found.columns).push_back(v);
  }
  const auto length = [&](const std::vector<LoopVar>& variables) {
    const bool is_symbolic = std::ranges::any_of(
        variables,
        [&](const LoopVar& v) { return symbolic_loops.contains(v.id); });
    return is_symbolic ? INT64_MAX : extent_of(variables);
  };
  bool swaps = length(found.rows) < length(found.columns);
  const bool is_window = found.reduced.size() > 1;
  const bool is_half = program.arena[found.a].op == ScalarOp::cast;
  if (!is_window && !is_half &&
      std::min(length(found.rows), length(found.columns)) >= choices.rows_min) {
    const bool a = lies_along(program.arena, found.a, found.reduced);
    const bool b = lies_along(program.arena, found.b, found.reduced);
    if (a != b) swaps = a;
  }
  if (swaps) {
    std::swap(found.a, found.b);
    std::swap(found.rows, found.columns);
  }
  if (length(found.rows) < choices.rows_min ||
      length(found.columns) < choices.columns_min ||
      length(found.reduced) < choices.folded_min) {
    return std::nullopt;
  }
  return found;
}

bool is_contraction(const Program& program, const Stage& stage,
                    const TritonProductChoices& choices) {
  return contraction_of(program, stage, stage.outer, choices).has_value();
}

}  // namespace weft
