#include "compiler/loops/unroll_and_jam.hpp"

#include <doctest/doctest.h>

#include "tests/compiler/gpu_plan.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

/// Mean over windows of 3 × 3 with a border of one, as a GPU's target plans it.
Schedule pooled(std::int64_t rows, std::int64_t step, bool more = false) {
  Graph graph;
  const std::int64_t high = (rows - 1) * step + 1;
  add_input(graph, "x", dense({2, high, 64}));
  const TensorType made = dense({2, rows, (64 - 1) / step + 1});
  add_call(graph, "y", "aten.avg_pool2d.default",
           {ref("x"), list({3, 3}), list({step, step}), list({1, 1})}, made);
  graph.outputs = {"y"};
  if (more) {
    add_call(graph, "z", "aten.exp.default", {ref("y")}, made);
    graph.outputs = {"y", "z"};
  }
  return planned_for_gpu(graph);
}

int loads(const Schedule& plan, const Nest& nest) {
  std::vector<ExprId> values;
  for (const Stage& stage : nest.stages) {
    if (stage.is_reduction) values.push_back(stage.value);
  }
  int count = 0;
  for (const ExprId id : plan.program.arena.reachable(values)) {
    count += plan.program.arena[id].op == ScalarOp::load;
  }
  return count;
}

int reductions(const Nest& nest) {
  int count = 0;
  for (const Stage& stage : nest.stages) count += stage.is_reduction;
  return count;
}

}  // namespace

TEST_CASE("Rows of windows that overlap are folded together") {
  Schedule plan = pooled(24, 1);
  REQUIRE(plan.nests.size() == 1);
  const Nest before = plan.nests[0];
  CHECK(reductions(before) == 1);
  unroll_and_jam(plan);
  const Nest& nest = plan.nests[0];
  CHECK(reductions(nest) == 8);
  CHECK(nest.stages.size() == 16);
  CHECK(extent_of(nest.outer) * 8 == extent_of(before.outer));
  // Ten rows for eight results, instead of three each.
  CHECK(loads(plan, nest) == 10);
  for (const Stage& stage : nest.stages) CHECK(stage.inner.size() <= 1);
}

TEST_CASE("Rows go together in a number that divides them") {
  Schedule plan = pooled(21, 1);
  unroll_and_jam(plan);
  CHECK(reductions(plan.nests[0]) == 7);
  Schedule prime = pooled(23, 1);
  unroll_and_jam(prime);
  CHECK(reductions(prime.nests[0]) == 1);
}

TEST_CASE("Windows in steps share what they have in common") {
  Schedule plan = pooled(16, 2);
  unroll_and_jam(plan);
  CHECK(reductions(plan.nests[0]) == 8);
  CHECK(loads(plan, plan.nests[0]) == 17);
}

TEST_CASE("Windows that do not overlap stay as they are") {
  Schedule plan = pooled(16, 3);
  unroll_and_jam(plan);
  CHECK(reductions(plan.nests[0]) == 1);
}

TEST_CASE("What is made of the results is made of each") {
  Schedule plan = pooled(16, 1, true);
  unroll_and_jam(plan);
  const Nest& nest = plan.nests[0];
  CHECK(reductions(nest) == 8);
  std::set<std::string> places;
  std::set<int> results;
  for (const Stage& stage : nest.stages) {
    if (stage.is_reduction) {
      results.insert(stage.results[0]);
      continue;
    }
    places.insert(std::to_string(stage.output) + " " + stage.offset.key());
    int read = 0;
    for (const ExprId id : plan.program.arena.reachable({stage.value})) {
      const Scalar& node = plan.program.arena[id];
      read += node.op == ScalarOp::load && results.contains(node.buffer);
    }
    CHECK(read == 1);
  }
  CHECK(results.size() == 8);
  CHECK(places.size() == 16);
}
