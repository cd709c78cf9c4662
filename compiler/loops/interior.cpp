#include "compiler/loops/interior.hpp"

#include <map>
#include <optional>
#include <set>

namespace weft {
namespace {

std::optional<Index> position_of(const Scalar& node) {
  if (node.op == ScalarOp::position) return node.index[0];
  if (node.op != ScalarOp::constant || is_float(node.dtype)) return {};
  return Index(node.integer);
}

/// What is not negative where that comparison of positions is true.
std::optional<Index> bound_of(const ScalarArena& arena, const Scalar& node) {
  if (node.op != ScalarOp::call || node.arguments.size() != 2) return {};
  const auto a = position_of(arena[node.arguments[0]]);
  const auto b = position_of(arena[node.arguments[1]]);
  if (!a || !b || !(*a - *b).is_affine()) return {};
  if (node.function == "ge") return *a - *b;
  if (node.function == "gt") return *a - *b - 1;
  if (node.function == "le") return *b - *a;
  if (node.function == "lt") return *b - *a - 1;
  return {};
}

/// The bounds that guards consist of.
std::map<ExprId, Index> bounds_of(const ScalarArena& arena,
                                  const std::vector<ExprId>& roots) {
  std::vector<ExprId> guards;
  for (const ExprId id : arena.reachable(roots)) {
    if (arena[id].guarded) guards.push_back(arena[id].guard());
  }
  std::map<ExprId, Index> bounds;
  while (!guards.empty()) {
    const ExprId id = guards.back();
    guards.pop_back();
    const Scalar& node = arena[id];
    if (const auto bound = bound_of(arena, node)) bounds.emplace(id, *bound);
    if (node.op != ScalarOp::call || node.function != "logical_and") continue;
    guards.insert(guards.end(), node.arguments.begin(), node.arguments.end());
  }
  return bounds;
}

/// The expression where these are true.
ExprId where_true(ScalarArena& arena, ExprId root,
                  const std::map<ExprId, Index>& known) {
  const ExprId yes = arena.integer(DType::boolean, 1);
  std::map<ExprId, ExprId> replaced;
  for (const ExprId id : arena.reachable({root})) {
    const Scalar node = arena[id];
    std::vector<ExprId> arguments = node.arguments;
    for (ExprId& argument : arguments) argument = replaced.at(argument);
    const bool begins = !arguments.empty() && arguments[0] == yes;
    const bool calls = node.op == ScalarOp::call;
    if (known.contains(id)) {
      replaced[id] = yes;
    } else if (calls && node.function == "logical_and" && begins) {
      replaced[id] = arguments[1];
    } else if (calls && node.function == "logical_and" && arguments[1] == yes) {
      replaced[id] = arguments[0];
    } else if (calls && node.function == "select" && begins) {
      replaced[id] = arguments[1];
    } else if (node.guarded && !node.is_indirect && begins) {
      replaced[id] = arena.load(node.dtype, node.buffer, node.index);
    } else {
      replaced[id] = arena.with_arguments(id, std::move(arguments));
    }
  }
  return replaced.at(root);
}

/// Without those that hold nowhere, or not where another does.
void drop_impossible(std::map<ExprId, Index>& bounds) {
  std::set<ExprId> impossible;
  for (const auto& [a, bound] : bounds) {
    if (bound.range().second < 0) impossible.insert(a);
    for (const auto& [b, other] : bounds) {
      if ((bound + other).range().second < 0) impossible.insert(a);
    }
  }
  for (const ExprId id : impossible) bounds.erase(id);
}

bool reduces_window(const Nest& nest) {
  const Stage& reduction = nest.stages.front();
  return nest.outer_reduction && !nest.split && !nest.no_fuse &&
         reduction.is_reduction && !nest.outer.empty();
}

}  // namespace

void find_interiors(Schedule& plan) {
  ScalarArena& arena = plan.program.arena;
  for (Nest& nest : plan.nests) {
    if (!reduces_window(nest)) continue;
    std::vector<ExprId> roots;
    for (const Stage& stage : nest.stages) roots.push_back(stage.value);
    auto bounds = bounds_of(arena, roots);
    drop_impossible(bounds);
    if (bounds.empty()) continue;
    nest.interior.stages = nest.stages;
    for (Stage& stage : nest.interior.stages) {
      stage.value = where_true(arena, stage.value, bounds);
      if (stage.position < 0) continue;
      stage.position = where_true(arena, stage.position, bounds);
    }
    for (const auto& [id, bound] : bounds) {
      nest.interior.bounds.push_back(bound);
    }
  }
}

}  // namespace weft
