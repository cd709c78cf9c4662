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
Moved without_places(const Index& index, const Places& places) {
  Moved moved;
  IndexMap zero;
  for (const auto& [id, place] : places) {
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
  return flat_place(load.index, buffer.shape);
}

ExprId sum_of(ScalarArena& arena, const Moved& moved, const Places& places) {
  ExprId sum = -1;
  for (const auto& [id, step] : moved.steps) {
    const ExprId term = arena.call(
        "mul", DType::i64, {places.at(id), arena.integer(DType::i64, step)});
    sum = sum < 0 ? term : arena.call("add", DType::i64, {sum, term});
  }
  return sum;
}

}  // namespace

// One operation, with the places in the stead of their variables.
ExprId Lowering::placed(ExprId id, const Places& places, ExprId guard) {
  const Scalar node = arena()[id];
  if (node.op == ScalarOp::position) {
    const Moved moved = without_places(node.index[0], places);
    const ExprId rest = arena().position(moved.index);
    if (moved.steps.empty()) return rest;
    return arena().call("add", DType::i64,
                        {sum_of(arena(), moved, places), rest});
  }
  if (node.op != ScalarOp::load) return id;
  const Moved moved =
      without_places(flat_index(node, program_.buffers[node.buffer]), places);
  if (moved.steps.empty()) return arena().guarded_load(id, guard);
  ExprId place = sum_of(arena(), moved, places);
  if (node.placed) {
    place = arena().call("add", DType::i64, {node.place(), place});
  }
  const ExprId holds = node.guarded ? *both(node.guard(), guard) : guard;
  return arena().indirect_load(node.dtype, node.buffer, moved.index, holds,
                               place);
}

ExprId Lowering::read_at(const Virtual& value, const Position& at,
                         const Places& places, ExprId guard) {
  std::map<ExprId, ExprId> replaced;
  const ExprId root = value.at(at);
  for (const ExprId id : arena().reachable({root})) {
    std::vector<ExprId> arguments = arena()[id].arguments;
    for (ExprId& argument : arguments) argument = replaced.at(argument);
    replaced[id] =
        placed(arena().with_arguments(id, std::move(arguments)), places, guard);
  }
  return replaced.at(root);
}

}  // namespace weft
