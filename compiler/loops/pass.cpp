#include "compiler/loops/pass.hpp"

#include <algorithm>

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

}  // namespace weft
