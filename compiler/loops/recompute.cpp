#include "compiler/loops/recompute.hpp"

#include <algorithm>

#include "compiler/loops/align.hpp"

namespace weft {
namespace {

// Whether all that the nest computes is reductions over the elements of one
// row.
bool is_one_row(const Nest& nest) {
  return extent_of(nest.outer) == 1 && !nest.no_fuse &&
         std::ranges::all_of(nest.stages, [](const Stage& stage) {
           return stage.is_reduction && stage.position < 0;
         });
}

// Whether the stage reads a row of its own for each point, beside which the
// recomputed row costs little.
bool is_worth(const Program& program, const Nest& source, const Stage& stage,
              std::int64_t points, const LoopFacts& facts) {
  std::int64_t recomputed = 0;
  for (const Stage& other : source.stages) {
    recomputed += extent_of(other.inner);
  }
  const std::int64_t row = extent_of(stage.inner);
  if (row > facts.choices.loops.recomputed_row_elements_max ||
      recomputed > facts.choices.loops.recomputed_rows_max * row) {
    return false;
  }
  return 2 * elements_of(program.arena.main_read(stage.value)) > row * points;
}

}  // namespace

Stage with_buffers(Program& program, Stage stage,
                   const std::map<int, int>& buffers) {
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

void recompute_reductions(Program& program, const std::vector<Nest>& before,
                          Nest& nest, Stage& stage, const LoopFacts& facts,
                          Decisions& decisions) {
  if (!facts.recomputes || !stage.is_reduction || extent_of(nest.outer) == 1)
    return;
  for (const Nest& source : before) {
    if (!is_one_row(source) ||
        !makes_any(source, results_read(program, stage)) ||
        decisions.by_size([&] {
          return is_worth(program, source, stage, extent_of(nest.outer), facts);
        }) == 0) {
      continue;
    }
    IndexMap first;
    for (const LoopVar& variable : source.outer) first[variable.id] = Index(0);
    for (Stage copy : source.stages) {
      for (int& result : copy.results) {
        const Buffer original = program.buffers[result];
        program.buffers.push_back(original);
        const int own = static_cast<int>(program.buffers.size()) - 1;
        nest.recomputed[result] = own;
        result = own;
      }
      copy = with_buffers(program, std::move(copy), nest.recomputed);
      substitute(program, copy, first);
      nest.stages.push_back(std::move(copy));
    }
  }
  if (nest.recomputed.empty()) return;
  stage = with_buffers(program, std::move(stage), nest.recomputed);
}

void drop_recomputed(const Program& program, std::vector<Nest>& nests) {
  std::set<int> recomputed;
  std::set<int> read;
  for (const Nest& nest : nests) {
    for (const auto& [original, own] : nest.recomputed) {
      recomputed.insert(original);
    }
    for (const Stage& stage : nest.stages) {
      read.merge(results_read(program, stage));
    }
  }
  std::erase_if(nests, [&](const Nest& nest) {
    return std::ranges::all_of(nest.stages, [&](const Stage& stage) {
      return !stage.results.empty() &&
             std::ranges::all_of(stage.results, [&](int result) {
               return recomputed.contains(result) && !read.contains(result);
             });
    });
  });
}

}  // namespace weft
