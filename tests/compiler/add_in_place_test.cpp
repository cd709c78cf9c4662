#include <doctest/doctest.h>

#include "compiler/loops/schedule.hpp"
#include "compiler/lowering/lower.hpp"
#include "tests/compiler/graph_builder.hpp"

using namespace weft;

namespace {

/// The gradient of a table of 5 rows that was read 21 times.
Graph table_gradient() {
  GraphBuilder graph;
  graph.input("g", dense({3, 7, 8}))
      .input("i", dense({3, 7}, DType::i64))
      .call("y", "embedding_dense_backward", {"g", "i"}, dense({5, 8}),
            {Arg{std::int64_t{5}}, Arg{std::int64_t{-1}}, Arg{false}})
      .outputs({"y"});
  return graph.graph;
}

Program lowered(const Graph& graph, bool adds_in_place = true) {
  auto program = lower(graph, {.adds_in_place = adds_in_place});
  REQUIRE(program.has_value());
  return std::move(*program);
}

}  // namespace

TEST_CASE("Sums to places are added into the output where they are all of it") {
  const Program program = lowered(table_gradient());
  REQUIRE(program.stages.size() == 2);
  CHECK(program.stages[0].is_store());
  CHECK(program.stages[1].is_add);
  CHECK(program.stages[1].results ==
        std::vector<int>{program.stages[0].output});
  CHECK(program.buffers[program.stages[0].output].kind == BufferKind::output);
}

TEST_CASE("What else is made of the sums reads them when all are added") {
  Graph graph = table_gradient();
  Node relu;
  relu.name = "z";
  relu.target = "aten.relu.default";
  relu.args = {Arg{NodeRef{"y"}}};
  relu.values = {dense({5, 8})};
  graph.nodes.push_back(relu);
  graph.outputs = {"y", "z"};
  const Schedule plan = schedule(lowered(graph), LoopFacts{});
  REQUIRE(plan.nests.size() >= 3);
  CHECK(plan.nests[0].stages[0].is_reduction);
  CHECK(plan.nests[1].stages[0].is_add);
  CHECK(plan.nests[1].stages.size() == 1);
  CHECK(plan.spilled == std::set<int>(plan.nests[1].stages[0].results.begin(),
                                      plan.nests[1].stages[0].results.end()));
}

TEST_CASE("Threads share what is added side by side, never the entries") {
  LoopFacts facts;
  facts.cores = 4;
  facts.choices.loops.parallel_elements_min = 1;
  const Schedule plan = schedule(lowered(table_gradient()), facts);
  const Nest& nest = plan.nests.back();
  REQUIRE(nest.stages[0].is_add);
  CHECK(nest.outer_reduction);
  CHECK(nest.parallel);
  CHECK_FALSE(nest.split);
  CHECK(extent_of(nest.outer) == 8);
  CHECK(extent_of(nest.stages[0].inner) == 21);
}

TEST_CASE("A target that does not add in place folds over the entries") {
  const Program program = lowered(table_gradient(), false);
  for (const Stage& stage : program.stages) CHECK_FALSE(stage.is_add);
}
