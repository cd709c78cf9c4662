#include "compiler/cuda/vector_width.hpp"

#include <algorithm>

#include "compiler/cuda/scalar.hpp"

namespace weft {

std::vector<ExprId> cuda_loads(const Program& program, const Pass& pass) {
  std::vector<ExprId> roots;
  for (const Stage* stage : pass.stages) {
    roots.push_back(stage->value);
    if (stage->position >= 0) roots.push_back(stage->position);
  }
  std::vector<ExprId> loads;
  for (const ExprId id : program.arena.reachable(roots)) {
    const Scalar& node = program.arena[id];
    if (node.op == ScalarOp::load && node.index.size() == 1) {
      loads.push_back(id);
    }
  }
  return loads;
}

namespace {

/// Bytes of the widest element; at least four, unless all that memory holds of
/// the nest are halves.
std::int64_t widest_bytes(const Program& program,
                          const std::vector<Pass>& passes) {
  std::int64_t widest = 4;
  bool halves = true;
  const auto look = [&](DType dtype, bool in_memory) {
    widest = std::max(widest, element_bytes(dtype));
    halves = halves && (is_half(dtype) || !in_memory);
  };
  for (const Pass& pass : passes) {
    for (const ExprId id : cuda_loads(program, pass)) {
      look(program.arena[id].dtype, true);
    }
    for (const Stage* stage : pass.stages) {
      look(program.arena[stage->value].dtype, stage->is_store());
    }
  }
  return halves && widest == 4 ? 2 : widest;
}

}  // namespace

int cuda_vector_width(const Program& program, const std::vector<Pass>& passes,
                      LoopVar lane) {
  const std::int64_t widest = widest_bytes(program, passes);
  for (int vector_width = static_cast<int>(16 / widest); vector_width > 1;
       vector_width /= 2) {
    if (lane.extent % vector_width != 0) continue;
    int vectors = 0;
    int others = 0;
    const auto count = [&](const Index& index, bool plain) {
      const int step = step_along(index, lane.id, vector_width);
      if (step == 0) return;
      plain&& step == 1 && is_aligned(index, lane.id, vector_width) ? ++vectors
                                                                    : ++others;
    };
    for (const Pass& pass : passes) {
      for (const ExprId id : cuda_loads(program, pass)) {
        const Scalar& node = program.arena[id];
        count(node.index[0], !node.guarded && !node.is_indirect);
      }
      for (const Stage* stage : pass.stages) {
        if (stage->is_store()) count(stage->offset, true);
      }
    }
    if (vectors > others) return vector_width;
  }
  return 1;
}

std::optional<Index> cuda_row_begin(const Program& program,
                                    const std::vector<Pass>& passes,
                                    LoopVar lane,
                                    const CudaRowChoices& choices) {
  bool fits = lane.extent >= choices.shifted_row_elements_min;
  std::optional<Index> begin;
  const auto check = [&](const Index& index, bool plain, DType dtype) {
    if (!index.uses(lane.id)) return;
    fits = fits && plain && !index.hides(lane.id) &&
           index.coefficient(lane.id) == 1 && element_bytes(dtype) == 4;
    if (!fits) return;
    const Index own = index.substitute({{lane.id, Index(0)}});
    if (!begin) begin = own;
    fits = is_aligned(own - *begin, -1, kCudaShiftedVectorWidth);
  };
  for (const Pass& pass : passes) {
    if (pass.inner.empty()) continue;
    fits = fits && pass.inner == std::vector<LoopVar>{lane};
    for (const ExprId id : cuda_loads(program, pass)) {
      const Scalar& node = program.arena[id];
      check(node.index[0], !node.guarded && !node.is_indirect, node.dtype);
    }
    for (const Stage* stage : pass.stages) {
      if (!stage->is_store()) continue;
      check(stage->offset, true, program.arena[stage->value].dtype);
    }
  }
  return fits ? begin : std::nullopt;
}

}  // namespace weft
