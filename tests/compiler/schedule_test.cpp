#include "compiler/loops/schedule.hpp"

#include <doctest/doctest.h>

#include "compiler/lowering/lower.hpp"
#include "tests/compiler/gpu_plan.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

Schedule planned(const Graph& graph, int cores = 1,
                 const Schedule* hint = nullptr) {
  LoopFacts facts;
  facts.cores = cores;
  auto program = lower(graph, {});
  REQUIRE(program.has_value());
  return schedule(std::move(*program), facts, hint);
}

/// Channels innermost, as a convolution leaves an image.
TensorType channels_last(std::vector<std::int64_t> shape) {
  TensorType type = dense(std::move(shape));
  const auto& s = type.shape;
  type.stride = {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]};
  return type;
}

/// Over the rows of such an image, written with the rows innermost.
Graph turned_softmax(const std::vector<std::int64_t>& shape) {
  Graph graph;
  add_input(graph, "x", channels_last(shape));
  add_call(graph, "y", "aten._softmax.default",
           {ref("x"), integer(3), truth(false)}, dense(shape));
  graph.outputs = {"y"};
  return graph;
}

Graph softmax(std::vector<std::int64_t> shape, std::int64_t dim) {
  Graph graph;
  const TensorType type = dense(std::move(shape));
  add_input(graph, "x", type);
  add_call(graph, "y", "aten._softmax.default",
           {ref("x"), integer(dim), truth(false)}, type);
  graph.outputs = {"y"};
  return graph;
}

Graph row_sums(std::vector<std::int64_t> shape) {
  Graph graph;
  add_input(graph, "x", dense(shape));
  add_call(graph, "s", "aten.sum.dim_IntList", {ref("x"), list({1})},
           dense({shape[0]}));
  graph.outputs = {"s"};
  return graph;
}

}  // namespace

TEST_CASE("A pointwise chain is one nest of one loop") {
  Graph graph;
  const TensorType type = dense({4, 8, 16});
  add_input(graph, "x", type);
  add_call(graph, "a", "aten.exp.default", {ref("x")}, type);
  add_call(graph, "b", "aten.add.Tensor", {ref("a"), ref("x")}, type);
  graph.outputs = {"b"};
  const Schedule plan = planned(graph);
  REQUIRE(plan.nests.size() == 1);
  REQUIRE(plan.nests[0].outer.size() == 1);
  CHECK(plan.nests[0].outer[0].extent == 4 * 8 * 16);
}

TEST_CASE("A softmax is one nest of three stages along its row") {
  const Schedule plan = planned(softmax({64, 32}, 1));
  REQUIRE(plan.nests.size() == 1);
  CHECK(plan.nests[0].stages.size() == 3);
  CHECK_FALSE(plan.nests[0].outer_reduction);
  CHECK(plan.spilled.empty());
}

TEST_CASE("A softmax over channels runs its vectors along the points") {
  const Schedule plan = planned(softmax({2, 8, 4, 16}, 1));
  REQUIRE(plan.nests.size() == 1);
  CHECK(plan.nests[0].outer_reduction);
  CHECK(plan.nests[0].outer.back().extent == 64);
}

TEST_CASE("A group norm joins its statistics across the split of channels") {
  Graph graph;
  const TensorType type = dense({2, 8, 4, 4});
  add_input(graph, "x", type);
  Node& node = add_call(graph, "n", "aten.native_group_norm.default",
                        {ref("x"), none(), none(), integer(2), integer(8),
                         integer(16), integer(2), number(1e-5)},
                        type);
  node.is_tuple = true;
  node.values = {type, dense({2, 2}), dense({2, 2})};
  add_call(graph, "y", "getitem", {ref("n"), integer(0)}, type);
  graph.outputs = {"y"};
  const Schedule plan = planned(graph);
  REQUIRE(plan.nests.size() == 1);
  CHECK(plan.nests[0].stages.size() == 3);
}

TEST_CASE("A large fold with one result is shared among the threads") {
  Graph graph;
  add_input(graph, "x", dense({1 << 20}));
  add_call(graph, "s", "aten.sum.default", {ref("x")}, dense({}));
  graph.outputs = {"s"};
  const Schedule shared = planned(graph, 2);
  REQUIRE(shared.nests.size() == 2);
  CHECK(shared.nests[0].split);
  CHECK_FALSE(planned(graph, 1).nests[0].split);
}

TEST_CASE("What goes by extents is as at the usual size, where there is one") {
  const std::vector<std::int64_t> small = {4, 53}, large = {4, 1 << 20};
  const Schedule few = planned(row_sums(small), 8);
  const Schedule many = planned(row_sums(large), 8);
  REQUIRE_FALSE(few.nests[0].split);
  REQUIRE(many.nests[0].split);
  const Schedule as_many = planned(row_sums(small), 8, &many);
  CHECK(as_many.nests[0].split);
  CHECK(as_many.nests[0].parallel);
  CHECK(as_many.nests[0].stages[0].inner[0].extent == 53);
  const Schedule as_few = planned(row_sums(large), 8, &few);
  CHECK_FALSE(as_few.nests[0].split);
  CHECK(as_few.decisions == few.decisions);
}

TEST_CASE("On a GPU so are few rows that are long, unless walked again") {
  const auto is_split = [](const Graph& graph) {
    return planned_for_gpu(graph, 1 << 20).nests[0].split;
  };
  CHECK(is_split(row_sums({1, 1 << 18})));
  CHECK_FALSE(is_split(row_sums({1, 1 << 12})));
  CHECK_FALSE(is_split(row_sums({64, 1 << 15})));
  CHECK_FALSE(is_split(softmax({1, 1 << 18}, 1)));
}

TEST_CASE("Little work starts no threads") {
  CHECK_FALSE(planned(softmax({8, 32}, 1), 2).nests[0].parallel);
  CHECK(planned(softmax({512, 512}, 1), 2).nests[0].parallel);
}

TEST_CASE("Results that another nest reads go to scratch") {
  Graph graph;
  const TensorType type = dense({16, 32});
  add_input(graph, "x", type);
  add_call(graph, "s", "aten._softmax.default",
           {ref("x"), integer(1), truth(false)}, type);
  add_call(graph, "t", "aten.sum.dim_IntList", {ref("s"), list({0})},
           dense({32}));
  graph.outputs = {"t"};
  const Schedule plan = planned(graph);
  CHECK(plan.nests.size() == 2);
  CHECK(plan.spilled.size() == 2);
}

TEST_CASE("A scan from the end is stored as it comes") {
  Graph graph;
  const TensorType type = dense({5, 100});
  add_input(graph, "x", type);
  add_call(graph, "a", "aten.flip.default", {ref("x"), list({1})}, type);
  add_call(graph, "b", "aten.cumsum.default", {ref("a"), integer(1)}, type);
  add_call(graph, "c", "aten.flip.default", {ref("b"), list({1})}, type);
  graph.outputs = {"c"};
  const Schedule plan = planned(graph);
  REQUIRE(plan.nests.size() == 1);
  CHECK(plan.spilled.empty());
  const Stage& store = plan.nests[0].stages.back();
  CHECK(store.offset.coefficient(store.inner[0].id) == -1);
}

TEST_CASE("A scan that leaves its own point out is stored one place further") {
  Graph graph;
  add_input(graph, "x", dense({5, 99}));
  add_input(graph, "zero", dense({5, 1}));
  add_call(graph, "a", "aten.cumsum.default", {ref("x"), integer(1)},
           dense({5, 99}));
  add_call(graph, "b", "aten.cat.default",
           {{Arg::List{ref("zero"), ref("a")}}, integer(1)}, dense({5, 100}));
  graph.outputs = {"b"};
  const Schedule plan = planned(graph);
  CHECK(plan.spilled.empty());
  REQUIRE(plan.nests.size() == 2);
  const Stage& store = plan.nests[0].stages.back();
  CHECK(store.offset.offset() == 1);
  CHECK(store.offset.coefficient(store.inner[0].id) == 1);
}

TEST_CASE("Long rows that would be written across have a nest of their own") {
  const Schedule plan = planned_for_gpu(turned_softmax({64, 64, 16, 1024}));
  REQUIRE(plan.nests.size() == 2);
  CHECK(plan.nests[0].stages.size() == 2);
  CHECK(plan.nests[0].outer_reduction);
  REQUIRE(plan.nests[1].stages.size() == 1);
  CHECK(plan.nests[1].stages[0].is_store());
  CHECK(plan.nests[1].stages[0].inner.empty());
}

TEST_CASE("Short ones are held and turned at once") {
  const Schedule plan = planned_for_gpu(turned_softmax({64, 64, 16, 32}));
  REQUIRE(plan.nests.size() == 1);
  CHECK(plan.nests[0].outer_reduction);
  CHECK(plan.spilled.empty());
}

TEST_CASE("Spilled results lie as they are made: channels beside each other") {
  const Schedule plan = planned_for_gpu(turned_softmax({64, 64, 16, 1024}));
  for (const Stage& stage : plan.nests[0].stages) {
    REQUIRE(stage.result_index.size() == 1);
    const int channels = plan.nests[0].outer.back().id;
    CHECK(stage.result_index[0].coefficient(channels) == 1);
  }
}

TEST_CASE("A batch and its channels, merged by a view, are told apart") {
  Graph graph;
  add_input(graph, "x", channels_last({2, 8, 64, 64}));
  add_call(graph, "v", "aten.view.default", {ref("x"), list({1, 16, 64, 64})},
           dense({1, 16, 64, 64}));
  add_call(graph, "s", "aten.sum.dim_IntList", {ref("v"), list({2, 3})},
           dense({1, 16}));
  graph.outputs = {"s"};
  const Schedule plan = planned_for_gpu(graph);
  CHECK(plan.nests[0].outer_reduction);
  REQUIRE(plan.nests[0].outer.size() == 2);
  CHECK(plan.nests[0].outer[0].extent == 2);
  CHECK(plan.nests[0].outer[1].extent == 8);
}

TEST_CASE("A group's moments are made of its channels' where these lie apart") {
  Graph graph;
  const std::vector<std::int64_t> shape = {2, 8, 64, 64};
  add_input(graph, "x", channels_last(shape));
  Node& node = add_call(graph, "n", "aten.native_group_norm.default",
                        {ref("x"), none(), none(), integer(2), integer(8),
                         integer(4096), integer(2), number(1e-5)},
                        dense(shape));
  node.is_tuple = true;
  node.values = {dense(shape), dense({2, 2}), dense({2, 2})};
  add_call(graph, "y", "getitem", {ref("n"), integer(0)}, dense(shape));
  graph.outputs = {"y"};
  const Schedule plan = planned_for_gpu(graph);
  CHECK(plan.nests[0].outer_reduction);
  CHECK(plan.nests[0].outer.back().extent == 8);
  CHECK(plan.nests.back().stages.size() == 1);
  CHECK(plan.nests.back().stages[0].is_store());
}
