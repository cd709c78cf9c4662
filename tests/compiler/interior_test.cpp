#include "compiler/loops/interior.hpp"

#include <doctest/doctest.h>

#include "compiler/loops/unroll_and_jam.hpp"
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

TEST_CASE("What holds nowhere, or not where another does, is no bound") {
  // Neighbouring rows are reduced together: of the first, one is the border.
  Graph few;
  add_input(few, "x", dense({2, 16, 8, 600}));
  add_call(few, "y", "aten.avg_pool2d.default",
           {ref("x"), list({3, 3}), list({1, 1}), list({1, 1})},
           dense({2, 16, 8, 600}));
  few.outputs = {"y"};
  Schedule plan = planned_for_gpu(few);
  unroll_and_jam(plan);
  find_interiors(plan);
  REQUIRE(!plan.nests[0].interior.bounds.empty());
  for (const Index& bound : plan.nests[0].interior.bounds) {
    CHECK(bound.range().second >= 0);
  }
  // Of two rows beside each other a place is in one.
  Graph beside;
  add_input(beside, "a", dense({2, 16, 400}));
  add_input(beside, "b", dense({2, 16, 400}));
  add_call(beside, "c", "aten.cat.default",
           {Arg{Arg::List{ref("a"), ref("b")}}, integer(2)},
           dense({2, 16, 800}));
  add_call(beside, "y", "aten.avg_pool1d.default",
           {ref("c"), list({3}), list({1}), list({1})}, dense({2, 16, 800}));
  beside.outputs = {"y"};
  plan = planned_for_gpu(beside);
  find_interiors(plan);
  for (const Nest& nest : plan.nests) {
    for (const Index& one : nest.interior.bounds) {
      for (const Index& other : nest.interior.bounds) {
        CHECK((one + other).range().second >= 0);
      }
    }
  }
}

TEST_CASE("Windows that reach over no border have no bounds") {
  const Schedule plan = pooled(0);
  CHECK(plan.nests[0].interior.bounds.empty());
  CHECK(plan.nests[0].interior.stages.empty());
}
