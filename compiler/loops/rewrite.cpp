#include "compiler/loops/rewrite.hpp"

#include <algorithm>

namespace weft {
namespace {

using Variables = std::vector<LoopVar>;

Variables renamed(const Variables& list, const IndexMap& map) {
  Variables result;
  for (const LoopVar& variable : list) {
    const auto found = map.find(variable.id);
    if (found == map.end()) {
      result.push_back(variable);
      continue;
    }
    std::map<int, LoopVar> fresh;
    found->second.collect(fresh);
    // Outermost first: the larger coefficient.
    Variables parts;
    for (const auto& [id, part] : fresh) parts.push_back(part);
    std::sort(parts.begin(), parts.end(), [&](auto& a, auto& b) {
      return found->second.coefficient(a.id) > found->second.coefficient(b.id);
    });
    result.insert(result.end(), parts.begin(), parts.end());
  }
  return result;
}

}  // namespace

void substitute(Program& program, Stage& stage, const IndexMap& map) {
  stage.outer = renamed(stage.outer, map);
  stage.inner = renamed(stage.inner, map);
  stage.value = program.arena.substitute(stage.value, map);
  if (stage.position >= 0) {
    stage.position = program.arena.substitute(stage.position, map);
  }
  for (Index& index : stage.result_index) index = index.substitute(map);
  stage.offset = stage.offset.substitute(map);
  for (auto& [index, extent] : stage.bounds) index = index.substitute(map);
}

void substitute_nest(Program& program, Nest& nest, const IndexMap& map) {
  nest.outer = renamed(nest.outer, map);
  for (Stage& stage : nest.stages) substitute(program, stage, map);
}

Stage with_buffers(Program& program, Stage stage,
                   const std::map<int, int>& buffers) {
  if (buffers.empty()) return stage;
  ScalarArena& arena = program.arena;
  std::map<ExprId, ExprId> replaced;
  for (const ExprId id : arena.reachable(roots_of(stage))) {
    Scalar node = arena[id];
    for (ExprId& argument : node.arguments) argument = replaced.at(argument);
    const auto found =
        node.op == ScalarOp::load ? buffers.find(node.buffer) : buffers.end();
    if (found == buffers.end()) {
      replaced[id] = arena.with_arguments(id, node.arguments);
    } else if (node.is_indirect) {
      replaced[id] =
          arena.indirect_load(node.dtype, found->second, node.index.front(),
                              node.guard(), node.indirect_offset());
    } else {
      const ExprId bare = arena.load(node.dtype, found->second, node.index);
      replaced[id] =
          node.guarded ? arena.guarded_load(bare, node.guard()) : bare;
    }
  }
  stage.value = replaced.at(stage.value);
  if (stage.position >= 0) stage.position = replaced.at(stage.position);
  return stage;
}

}  // namespace weft
