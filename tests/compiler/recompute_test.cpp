#include "compiler/loops/recompute.hpp"

#include <doctest/doctest.h>

#include "compiler/lowering/keep_values.hpp"
#include "tests/compiler/gpu_plan.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

/// A product of the row `x` with a matrix of its own, as a sum.
void add_product(Graph& graph, const std::string& name, const std::string& x,
                 std::int64_t columns, std::int64_t terms) {
  add_input(graph, name + "_weight", dense({columns, terms}));
  add_call(graph, name + "_terms", "aten.mul.Tensor",
           {ref(x), ref(name + "_weight")}, dense({columns, terms}));
  add_call(graph, name, "aten.sum.dim_IntList",
           {ref(name + "_terms"), list({1})}, dense({columns}));
}

/// "h": the row `x` over its root mean square.
void add_norm(Graph& graph, std::int64_t width, std::int64_t rows = 1) {
  add_input(graph, "x", dense({rows, width}));
  add_call(graph, "squares", "aten.mul.Tensor", {ref("x"), ref("x")},
           dense({rows, width}));
  add_call(graph, "total", "aten.sum.dim_IntList",
           {ref("squares"), list({1}), truth(true)}, dense({rows, 1}));
  add_call(graph, "scale", "aten.rsqrt.default", {ref("total")},
           dense({rows, 1}));
  add_call(graph, "h", "aten.mul.Tensor", {ref("x"), ref("scale")},
           dense({rows, width}));
}

Graph norm_and_products(std::int64_t width,
                        const std::vector<std::int64_t>& columns) {
  Graph graph;
  add_norm(graph, width);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    add_product(graph, "y" + std::to_string(i), "h", columns[i], width);
    graph.outputs.push_back("y" + std::to_string(i));
  }
  return graph;
}

int reductions_in(const Nest& nest) {
  return static_cast<int>(std::ranges::count_if(
      nest.stages, [](const Stage& stage) { return stage.is_reduction; }));
}

}  // namespace

TEST_CASE("A row's norm is computed in each point of a product that reads it") {
  const Schedule plan = planned_for_gpu(norm_and_products(1024, {512}));
  REQUIRE(plan.nests.size() == 1);
  CHECK(extent_of(plan.nests[0].outer) == 512);
  CHECK(reductions_in(plan.nests[0]) == 2);
  CHECK(plan.spilled.empty());
}

TEST_CASE("Each of several products computes it, and its own kernel is gone") {
  const Schedule plan = planned_for_gpu(norm_and_products(1024, {512, 256}));
  REQUIRE(plan.nests.size() == 2);
  CHECK(reductions_in(plan.nests[0]) == 2);
  CHECK(reductions_in(plan.nests[1]) == 2);
  CHECK(plan.spilled.empty());
}

TEST_CASE("A row's norm keeps its kernel where something else reads it") {
  Graph graph = norm_and_products(1024, {512});
  graph.outputs.push_back("total");
  const Schedule plan = planned_for_gpu(graph);
  CHECK(plan.nests.size() == 2);
}

TEST_CASE("A row too long for registers is not computed again") {
  const std::int64_t width = 2 * Choices{}.loops.recomputed_row_elements_max;
  const Schedule plan = planned_for_gpu(norm_and_products(width, {512}));
  CHECK(plan.nests.size() > 1);
}

TEST_CASE("What reads no rows of its own computes no norm again") {
  // 512 sums of one row: not worth the row's norm 512 times.
  Graph graph;
  add_norm(graph, 1024);
  add_input(graph, "b", dense({512, 1}));
  add_call(graph, "t", "aten.add.Tensor", {ref("h"), ref("b")},
           dense({512, 1024}));
  add_call(graph, "y", "aten.sum.dim_IntList", {ref("t"), list({1})},
           dense({512}));
  graph.outputs = {"y"};
  CHECK(planned_for_gpu(graph).nests.size() == 2);
}

TEST_CASE("Two products of one row are one kernel, and what follows both") {
  Graph graph;
  add_input(graph, "x", dense({1, 1024}));
  add_product(graph, "a", "x", 512, 1024);
  add_product(graph, "b", "x", 512, 1024);
  add_call(graph, "y", "aten.mul.Tensor", {ref("a"), ref("b")}, dense({512}));
  graph.outputs = {"y"};
  const Schedule plan = planned_for_gpu(graph);
  REQUIRE(plan.nests.size() == 1);
  CHECK(reductions_in(plan.nests[0]) == 2);
  CHECK(plan.spilled.empty());
}

TEST_CASE("Products of one row with other numbers of columns are two kernels") {
  Graph graph;
  add_input(graph, "x", dense({1, 1024}));
  add_product(graph, "a", "x", 512, 1024);
  add_product(graph, "b", "x", 256, 1024);
  graph.outputs = {"a", "b"};
  CHECK(planned_for_gpu(graph).nests.size() == 2);
}

TEST_CASE("So many reductions of one row share a kernel, and no more") {
  Graph graph;
  add_input(graph, "x", dense({1, 1024}));
  const auto most = Choices{}.loops.reductions_beside_max;
  for (std::int64_t i = 0; i <= most; ++i) {
    add_product(graph, "y" + std::to_string(i), "x", 512, 1024);
    graph.outputs.push_back("y" + std::to_string(i));
  }
  const Schedule plan = planned_for_gpu(graph);
  REQUIRE(plan.nests.size() == 2);
  CHECK(reductions_in(plan.nests[0]) == most);
}

TEST_CASE("A processor's plan shares no rows so") {
  LoopFacts facts;
  auto program = lower(norm_and_products(1024, {512}), {});
  REQUIRE(program.has_value());
  CHECK(schedule(std::move(*program), facts).nests.size() == 2);
}

TEST_CASE("What a product's points would each compute again is kept") {
  // Functions between two products: for each element, or for each element of
  // the second matrix, whose reading takes less time than these.
  Graph graph;
  add_input(graph, "x", dense({1, 2048}));
  add_product(graph, "a", "x", 2048, 2048);
  add_call(graph, "e", "aten.exp.default", {ref("a")}, dense({2048}));
  add_call(graph, "s", "aten.sigmoid.default", {ref("e")}, dense({2048}));
  add_call(graph, "h", "aten.tanh.default", {ref("s")}, dense({2048}));
  add_product(graph, "y", "h", 2048, 2048);
  graph.outputs = {"y"};
  const auto kept =
      worth_keeping(graph,
                    [&](const std::set<std::string>& keep) {
                      LoweringOptions options;
                      options.keep = keep;
                      return planned_for_gpu(graph, 16384, options);
                    },
                    {}, {});
  CHECK(kept == std::set<std::string>{"h"});
}
