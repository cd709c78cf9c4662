#include "compiler/loops/scratch.hpp"

#include <algorithm>
#include <map>

namespace weft {
namespace {

// A result in registers is not read from memory, so its guard is a select.
ExprId resolved(ScalarArena& arena, const Scalar& load, bool here,
                const Index& flat) {
  if (load.is_indirect) {
    return arena.indirect_load(load.dtype, load.buffer, flat, load.guard(),
                               load.indirect_offset());
  }
  const ExprId bare =
      arena.load(load.dtype, load.buffer,
                 here ? std::vector<Index>{} : std::vector<Index>{flat});
  if (!load.guarded) return bare;
  if (!here) return arena.guarded_load(bare, load.guard());
  return arena.call("select", load.dtype,
                    {load.guard(), bare, arena.integer(load.dtype, 0)});
}

// For results that coalesced threads make along another dimension than the
// last: that dimension, which is innermost in scratch. Excluded are results
// that are read at computed places, which count row by row, and those of nests
// that the target wants alone, whose layout is the target's.
using Innermost = std::map<int, std::size_t>;

Innermost innermost_in_scratch(const Program& program,
                               const std::vector<Nest>& nests) {
  Innermost found;
  for (const Nest& nest : nests) {
    if (!nest.outer_reduction || nest.no_fuse) continue;
    for (const Stage& stage : nest.stages) {
      for (std::size_t i = 0; i < stage.result_index.size(); ++i) {
        if (!(stage.result_index[i] == Index(nest.outer.back()))) continue;
        for (const int buffer : stage.results) found[buffer] = i;
      }
    }
  }
  for (const Nest& nest : nests) {
    for (const Stage& stage : nest.stages) {
      for (const ExprId id : program.arena.reachable({stage.value})) {
        const Scalar& node = program.arena[id];
        if (node.op == ScalarOp::load && node.is_indirect)
          found.erase(node.buffer);
      }
    }
  }
  return found;
}

// Where an element of a result is in scratch: row-major, but for that.
Index scratch_index(const Program& program, const Innermost& innermost,
                    int buffer, const std::vector<Index>& at) {
  const auto& shape = program.buffers[buffer].shape;
  const auto found = innermost.find(buffer);
  const std::size_t last =
      found == innermost.end() ? shape.size() : found->second;
  Index flat;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (i != last) flat = flat * shape[i] + at[i];
  }
  return last < shape.size() ? flat * shape[last] + at[last] : flat;
}

void resolve_results(Schedule& plan, const Innermost& innermost, Nest& nest) {
  Program& program = plan.program;
  for (Stage& stage : nest.stages) {
    std::map<ExprId, ExprId> replaced;
    for (const ExprId id : program.arena.reachable(roots_of(stage))) {
      Scalar node = program.arena[id];
      for (ExprId& argument : node.arguments) argument = replaced.at(argument);
      if (node.op == ScalarOp::load &&
          program.buffers[node.buffer].kind == BufferKind::result) {
        const bool here =
            makes_any(nest, {node.buffer}) && !nest.split && !node.is_indirect;
        if (!here) plan.spilled.insert(node.buffer);
        const Index flat =
            scratch_index(program, innermost, node.buffer, node.index);
        replaced[id] = resolved(program.arena, node, here, flat);
      } else {
        replaced[id] = program.arena.with_arguments(id, node.arguments);
      }
    }
    stage.value = replaced.at(stage.value);
    if (stage.position >= 0) stage.position = replaced.at(stage.position);
  }
}

// Where a spilled result goes; a result that stays has no place.
void flatten_result_index(const Schedule& plan, const Innermost& innermost,
                          Stage& stage) {
  const bool spills =
      stage.is_add ||
      std::any_of(stage.results.begin(), stage.results.end(),
                  [&](int buffer) { return plan.spilled.contains(buffer); });
  if (!spills) {
    stage.result_index = {};
    return;
  }
  stage.result_index = {scratch_index(plan.program, innermost, stage.results[0],
                                      stage.result_index)};
}

}  // namespace

void lay_out_results(Schedule& plan, bool coalesced) {
  const Innermost innermost =
      coalesced ? innermost_in_scratch(plan.program, plan.nests) : Innermost{};
  for (Nest& nest : plan.nests) resolve_results(plan, innermost, nest);
  for (Nest& nest : plan.nests) {
    for (Stage& stage : nest.stages) {
      flatten_result_index(plan, innermost, stage);
    }
  }
}

}  // namespace weft
