#include "compiler/loops/pass.hpp"

#include <algorithm>

#include "compiler/cpu/scalar.hpp"

namespace weft {
namespace {

bool reads(const Program& program, const Stage& stage, const Pass& pass) {
  for (const ExprId id : program.arena.reachable({stage.value})) {
    const Scalar& node = program.arena[id];
    if (node.op != ScalarOp::load) continue;
    for (const Stage* other : pass.stages) {
      if (std::find(other->results.begin(), other->results.end(),
                    node.buffer) != other->results.end()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::vector<Pass> passes_of(const Program& program, const Nest& nest) {
  std::vector<Pass> passes;
  for (const Stage& stage : nest.stages) {
    const bool joins = !passes.empty() && passes.back().inner == stage.inner &&
                       (passes.back().scan() != nullptr ||
                        !reads(program, stage, passes.back()));
    if (!joins) passes.push_back({{}, stage.inner});
    passes.back().stages.push_back(&stage);
  }
  return passes;
}

std::string reducer(const Program& program, const Stage& stage) {
  const DType dtype = program.arena[stage.value].dtype;
  const std::string type = "<" + vector_type(dtype) + ">";
  const bool truth = dtype == DType::boolean;
  if (stage.scans) {
    return (stage.fold == Fold::sum ? "RunningSum" : "RunningProduct") + type;
  }
  switch (stage.fold) {
    case Fold::sum:
      return "Sum" + type;
    case Fold::prod:
      return "Product" + type;
    case Fold::max:
      return (truth ? "Any" : "Max") + type;
    case Fold::min:
      return (truth ? "All" : "Min") + type;
    case Fold::argmax:
      return "ArgMax" + type;
    case Fold::argmin:
      break;
  }
  return "ArgMin" + type;
}

}  // namespace weft
