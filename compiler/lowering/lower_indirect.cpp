// Reading where a value says: indirect loads.
#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

// An index without its places, and what each place moves it by.
struct Moved {
  Index index;
  std::map<int, std::int64_t> steps;
};

// Throws where a view has put a place under a quotient.
Moved without_computed(const Index& index, const ComputedIndices& indices) {
  Moved moved;
  IndexMap zero;
  for (const auto& [id, offset] : indices) {
    if (index.hides(id)) throw Unsupported{"an indirect read through a view"};
    const std::int64_t step = index.coefficient(id);
    if (step != 0) moved.steps[id] = step;
    zero[id] = Index(0);
  }
  moved.index = index.substitute(zero);
  return moved;
}

// Results are row-major.
Index flat_index(const Scalar& load, const Buffer& buffer) {
  if (load.index.size() == 1) return load.index[0];
  return flat_offset(load.index, buffer.shape);
}

ExprId sum_of(ScalarArena& arena, const Moved& moved,
              const ComputedIndices& indices) {
  ExprId sum = -1;
  for (const auto& [id, step] : moved.steps) {
    const ExprId term = arena.call(
        "mul", DType::i64, {indices.at(id), arena.integer(DType::i64, step)});
    sum = sum < 0 ? term : arena.call("add", DType::i64, {sum, term});
  }
  return sum;
}

}  // namespace

// One operation, with the places in the stead of their variables.
ExprId Lowering::indirect(ExprId id, const ComputedIndices& indices,
                          ExprId guard) {
  const Scalar node = arena()[id];
  if (node.op == ScalarOp::position) {
    const Moved moved = without_computed(node.index[0], indices);
    const ExprId rest = arena().position(moved.index);
    if (moved.steps.empty()) return rest;
    return arena().call("add", DType::i64,
                        {sum_of(arena(), moved, indices), rest});
  }
  if (node.op != ScalarOp::load) return id;
  const Moved moved = without_computed(
      flat_index(node, program_.buffers[node.buffer]), indices);
  if (moved.steps.empty()) return arena().guarded_load(id, guard);
  ExprId offset = sum_of(arena(), moved, indices);
  if (node.is_indirect) {
    offset = arena().call("add", DType::i64, {node.indirect_offset(), offset});
  }
  const ExprId holds = node.guarded ? *both(node.guard(), guard) : guard;
  return arena().indirect_load(node.dtype, node.buffer, moved.index, holds,
                               offset);
}

ExprId Lowering::read_at(const Virtual& value, const Position& at,
                         const ComputedIndices& indices, ExprId guard) {
  std::map<ExprId, ExprId> replaced;
  const ExprId root = value.at(at);
  for (const ExprId id : arena().reachable({root})) {
    std::vector<ExprId> arguments = arena()[id].arguments;
    for (ExprId& argument : arguments) argument = replaced.at(argument);
    replaced[id] = indirect(arena().with_arguments(id, std::move(arguments)),
                            indices, guard);
  }
  return replaced.at(root);
}

}  // namespace weft
