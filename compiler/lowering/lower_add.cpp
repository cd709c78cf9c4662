// Additions in place as stages of the program.
#include <algorithm>

#include "compiler/loops/schedule.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft {

Virtual Lowering::add_in_place(const Virtual& base, const Shape& picked,
                               const Shape& extents, const Shape& entries,
                               const AdditionAt& at) {
  const DType dtype = base.dtype();
  const Shape& shape = base.shape();
  const Virtual filled = materialized(base);
  Stage stage;
  stage.is_add = true;
  stage.note = note_;
  stage.results = program_.stages.back().results;
  const auto walked = [&](std::int64_t extent, std::vector<LoopVar>& list) {
    if (extent == 1) return Index(0);
    list.push_back(program_.new_variable(extent));
    return Index(list.back());
  };
  Position point;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool is_picked = std::ranges::find(picked, i) != picked.end();
    point.push_back(is_picked ? Index(0) : walked(extents[i], stage.outer));
  }
  stage.result_index = point;
  Position entry;
  for (const std::int64_t extent : entries) {
    entry.push_back(walked(extent, stage.inner));
  }
  const Addition addition = at(point, entry);
  stage.value = addition.value;
  ExprId offset = arena().integer(DType::i64, 0);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    std::int64_t stride = 1;
    for (std::size_t k = picked[i] + 1; k < shape.size(); ++k) {
      stride *= shape[k];
    }
    const ExprId moved = arena().call(
        "mul", DType::i64,
        {addition.indices[i], arena().integer(DType::i64, stride)});
    offset = arena().call("add", DType::i64, {offset, moved});
  }
  const ExprId nowhere = arena().integer(DType::i64, -1);
  stage.position = addition.holds
                       ? arena().call("select", DType::i64,
                                      {*addition.holds, offset, nowhere})
                       : offset;
  const int buffer = stage.results[0];
  program_.stages.push_back(std::move(stage));
  return Virtual(dtype, shape, [=, this](const Position& where) {
    return arena().load(dtype, buffer, where);
  });
}

namespace {

bool reads(const ScalarArena& arena, const Stage& stage, int buffer) {
  return std::ranges::any_of(arena.reachable(roots_of(stage)), [&](ExprId id) {
    return arena[id].op == ScalarOp::load && arena[id].buffer == buffer;
  });
}

/// Whether the stage copies that buffer as it is to an output, and no more.
bool copies(const Program& program, const Stage& stage, int buffer) {
  const Scalar& load = program.arena[stage.value];
  if (!stage.is_store() || load.op != ScalarOp::load || load.guarded ||
      load.buffer != buffer) {
    return false;
  }
  const Shape& shape = program.buffers[buffer].shape;
  const Buffer& output = program.buffers[stage.output];
  return output.shape == shape &&
         extent_of(stage.inner) == elements_of(output) &&
         stage.offset == flat_offset(load.index, shape);
}

}  // namespace

void Lowering::add_into_outputs() {
  auto& stages = program_.stages;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (!stages[i].is_add) continue;
    const int buffer = stages[i].results[0];
    std::vector<std::size_t> readers;
    std::vector<std::size_t> makers;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      if (reads(arena(), stages[k], buffer)) readers.push_back(k);
      if (stages[k].is_reduction && stages[k].results == stages[i].results) {
        makers.push_back(k);
      }
    }
    if (readers.size() != 1 || makers.size() != 1 ||
        !copies(program_, stages[readers[0]], buffer)) {
      continue;
    }
    const Stage& copy = stages[readers[0]];
    Stage& filled = stages[makers[0]];
    filled.is_reduction = false;
    filled.inner = std::move(filled.outer);
    filled.outer.clear();
    filled.output = copy.output;
    filled.offset =
        flat_offset(filled.result_index, program_.buffers[buffer].shape);
    filled.results.clear();
    filled.result_index.clear();
    stages[i].results = {copy.output};
    stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(readers[0]));
  }
}

}  // namespace weft
