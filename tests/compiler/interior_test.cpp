#include "compiler/interior.hpp"

#include <doctest/doctest.h>

#include "tests/compiler/gpu_plan.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

/// Mean of windows of 3 × 3 that reach so far over the border.
Schedule pooled(std::int64_t border) {
  Graph graph;
  const std::int64_t rows = 14 + 2 * border;
  add_input(graph, "x", dense({2, 16, 600}));
  add_call(graph, "y", "aten.avg_pool2d.default",
           {ref("x"), list({3, 3}), list({1, 1}), list({border, border})},
           dense({2, rows, 598 + 2 * border}));
  graph.outputs = {"y"};
  Schedule plan = planned_for_gpu(graph);
  find_interiors(plan);
  REQUIRE(plan.nests.size() == 1);
  return plan;
}

/// How many loads have a guard, and how many have none.
std::pair<int, int> guards(const Schedule& plan,
                           const std::vector<Stage>& stages) {
  std::pair<int, int> found;
  for (const Stage& stage : stages) {
    for (const ExprId id : plan.program.arena.reachable({stage.value})) {
      const Scalar& node = plan.program.arena[id];
      if (node.op != ScalarOp::load || node.index.empty()) continue;
      ++(node.guarded ? found.first : found.second);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("Inside, the loads of a window have no guards") {
  const Schedule plan = pooled(1);
  const Nest& nest = plan.nests[0];
  CHECK(guards(plan, nest.stages) == std::pair(1, 0));
  CHECK(guards(plan, nest.interior.stages) == std::pair(0, 1));
}

TEST_CASE("The bounds hold inside, and only there") {
  const Schedule plan = pooled(1);
  const Nest& nest = plan.nests[0];
  const auto inside = [&](std::int64_t row, std::int64_t column) {
    // One window element after the other.
    for (std::int64_t i = 0; i < 9; ++i) {
      IndexMap at;
      for (const LoopVar& v : nest.outer) at[v.id] = Index(0);
      at[nest.outer.back().id] = Index(column);
      at[nest.outer[nest.outer.size() - 2].id] = Index(row);
      const auto& window = nest.stages.front().inner;
      at[window[0].id] = Index(i / 3);
      at[window[1].id] = Index(i % 3);
      for (const Index& bound : nest.interior.bounds) {
        if (bound.substitute(at).offset() < 0) return false;
      }
    }
    return true;
  };
  CHECK(inside(1, 1));
  CHECK(inside(14, 598));
  CHECK(!inside(0, 1));
  CHECK(!inside(15, 1));
  CHECK(!inside(1, 0));
  CHECK(!inside(1, 599));
}

TEST_CASE("Windows that reach over no border have no bounds") {
  const Schedule plan = pooled(0);
  CHECK(plan.nests[0].interior.bounds.empty());
  CHECK(plan.nests[0].interior.stages.empty());
}
