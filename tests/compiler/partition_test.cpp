#include "compiler/fusion/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/graph/graph_check.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

/// Everything but matrix products.
bool no_products(const Graph&, const Node& call) {
  return call.target.find("mm") == std::string::npos;
}

Plan cut(const Graph& graph) {
  REQUIRE(check_graph(graph));
  Plan plan = partition(graph, no_products);
  REQUIRE(check_graph(plan.model));
  for (const Subgraph& subgraph : plan.subgraphs) {
    REQUIRE(check_graph(subgraph.graph));
  }
  return plan;
}

using Names = std::vector<std::string>;
const TensorType k2x3 = dense({2, 3});

TEST_CASE("a chain of pointwise calls is one subgraph") {
  GraphBuilder b;
  b.input("a", k2x3).call("r", "relu", {"a"}, k2x3);
  b.call("e", "exp", {"r"}, k2x3).outputs({"e"});
  const Plan plan = cut(b.graph);
  REQUIRE(plan.placements.size() == 1);
  CHECK(plan.placements[0].nodes == Names{"r", "e"});
  CHECK(plan.placements[0].inputs == Names{"a"});
  CHECK(plan.placements[0].outputs == Names{"e"});
  CHECK(plan.subgraphs[0].type == "relu+exp");
  CHECK(extern_counts(plan).empty());
}

TEST_CASE("an extern between two calls keeps them apart") {
  GraphBuilder b;
  const auto square = dense({3, 3});
  b.input("a", square).call("r", "relu", {"a"}, square);
  b.call("m", "mm", {"r", "r"}, square);
  b.call("s", "add", {"r", "m"}, square).outputs({"s"});
  const Plan plan = cut(b.graph);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[0].nodes == Names{"r"});
  CHECK(plan.placements[1].nodes == Names{"s"});
  CHECK(extern_counts(plan) ==
        std::map<std::string, int>{{"aten.mm.default", 1}});
}

TEST_CASE("two regions never wait for each other") {
  // a1 → b1 and b2 → a2 with a1, a2 and b1, b2 joined by later calls: each
  // region alone is convex, but together they would be a circle.
  GraphBuilder b;
  const auto square = dense({3, 3});
  b.input("x", square).input("y", square);
  b.call("a1", "relu", {"x"}, square).call("b2", "exp", {"y"}, square);
  b.call("m1", "mm", {"a1", "x"}, square).call("m2", "mm", {"b2", "x"}, square);
  b.call("a2", "add", {"a1", "m2"}, square);
  b.call("b1", "add", {"b2", "m1"}, square);
  b.outputs({"a2", "b1"});
  const Plan plan = cut(b.graph);
  CHECK(plan.placements.size() == 3);
}

TEST_CASE("equal pieces are kept once, and placed twice") {
  GraphBuilder b;
  const auto square = dense({3, 3});
  b.input("a", square);
  b.call("r1", "relu", {"a"}, square).call("e1", "exp", {"r1"}, square);
  b.call("m", "mm", {"e1", "e1"}, square);
  b.call("r2", "relu", {"m"}, square).call("e2", "exp", {"r2"}, square);
  b.outputs({"e2"});
  const Plan plan = cut(b.graph);
  CHECK(plan.subgraphs.size() == 1);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[0].subgraph == plan.placements[1].subgraph);
}

TEST_CASE("another shape, stride, dtype or argument is another subgraph") {
  const auto id_of = [](TensorType type, double threshold) {
    GraphBuilder b;
    b.input("a", type).call("c", "clamp", {"a"}, type, {{threshold}});
    b.outputs({"c"});
    return cut(b.graph).subgraphs.at(0).id;
  };
  const std::string id = id_of(k2x3, 1.0);
  CHECK(id == id_of(k2x3, 1.0));
  CHECK(id != id_of(dense({3, 2}), 1.0));
  CHECK(id != id_of({DType::f32, {2, 3}, {1, 2}}, 1.0));
  CHECK(id != id_of(dense({2, 3}, DType::f64), 1.0));
  CHECK(id != id_of(k2x3, 2.0));
}

TEST_CASE("an id is the same on every machine") {
  GraphBuilder b;
  b.input("a", k2x3).call("r", "relu", {"a"}, k2x3).outputs({"r"});
  const Plan plan = cut(b.graph);
  CHECK(plan.subgraphs[0].signature ==
        "x0: float32[2,3]{3,1}\n"
        "t0 = aten.relu.default(x0): float32[2,3]{3,1}\n"
        "return t0\n");
  CHECK(plan.subgraphs[0].id == "sg_c6f87e9eac79");
}

TEST_CASE("views alone stay with the framework") {
  GraphBuilder b;
  b.input("a", k2x3).call("t", "permute", {"a"}, {DType::f32, {3, 2}, {1, 3}});
  b.call("c", "clone", {"t"}, dense({3, 2})).outputs({"c"});
  CHECK(cut(b.graph).placements.empty());
}

TEST_CASE("a split is the framework's, and its parts are inputs") {
  GraphBuilder b;
  b.input("a", dense({4, 3})).call("r", "relu", {"a"}, dense({4, 3}));
  b.tuple("s", "split", {"r"}, {k2x3, k2x3});
  b.getitem("low", "s", 0).getitem("high", "s", 1);
  b.call("p", "mul", {"low", "high"}, k2x3).outputs({"p"});
  const Plan plan = cut(b.graph);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[1].inputs == Names{"low", "high"});
  CHECK(extern_counts(plan).empty());
}

TEST_CASE("arithmetic on single numbers stays with the framework") {
  GraphBuilder b;
  b.placeholder(NodeKind::buffer, "n", dense({}, DType::i64), "bn.count");
  b.call("n1", "add", {"n"}, dense({}, DType::i64), {{std::int64_t{1}}});
  b.graph.mutations = {{"bn.count", false, "n1"}};
  b.graph.output_template = "None";
  CHECK(cut(b.graph).placements.empty());
}

TEST_CASE("what reads nothing stays with the framework") {
  GraphBuilder b;
  b.call("f", "full", {}, k2x3);
  b.call("m", "triu", {"f"}, k2x3).outputs({"m"});
  CHECK(cut(b.graph).placements.empty());
  GraphBuilder read;
  read.input("a", k2x3).call("f", "full", {}, k2x3);
  read.call("m", "triu", {"f"}, k2x3);
  read.call("s", "add", {"a", "m"}, k2x3).outputs({"s"});
  CHECK(cut(read.graph).placements.size() == 1);
}

TEST_CASE("a view before the work belongs to it") {
  GraphBuilder b;
  b.input("a", k2x3).call("v", "view", {"a"}, dense({6}));
  b.call("r", "relu", {"v"}, dense({6})).outputs({"r"});
  const Plan plan = cut(b.graph);
  CHECK(plan.placements.at(0).nodes == Names{"v", "r"});
  CHECK(plan.placements.at(0).inputs == Names{"a"});
}

/// h = relu(mm(h, w)) + x[:, t], so many steps of it.
Graph recurrence(std::int64_t steps, std::int64_t width) {
  GraphBuilder b;
  const TensorType state = dense({2, width});
  TensorType part = state;
  part.stride[0] = steps * width;
  b.input("x", dense({2, steps, width})).input("h", state);
  b.input("w", dense({width, width}));
  std::string before = "h";
  for (std::int64_t t = 0; t < steps; ++t) {
    const std::string n = std::to_string(t);
    b.call("m" + n, "mm", {before, "w"}, state);
    b.call("x" + n, "select.int", {"x"}, part, {Arg{std::int64_t{1}}, Arg{t}});
    b.call("r" + n, "relu", {"m" + n}, state);
    b.call("h" + n, "add", {"r" + n, "x" + n}, state);
    before = "h" + n;
  }
  b.outputs({before});
  return b.graph;
}

TEST_CASE("the steps of a loop are one subgraph, whatever they read of x") {
  const Plan plan = cut(recurrence(8, 4));
  CHECK(plan.placements.size() == 8);
  CHECK(plan.subgraphs.size() == 1);
  CHECK(plan.placements[5].nodes == Names{"r5", "h5"});
  CHECK(plan.placements[5].inputs == Names{"m5", "x5"});
}

TEST_CASE("few steps, and steps that begin anywhere, keep their views") {
  CHECK(cut(recurrence(3, 4)).subgraphs.size() == 3);
  CHECK(cut(recurrence(8, 3)).subgraphs.size() == 8);
}

TEST_CASE("many steps that begin anywhere are one, if a copy is cheap") {
  CHECK(cut(recurrence(32, 3)).subgraphs.size() == 1);
  // Eight of them begin at multiples of 16 bytes, and are one.
  CHECK(cut(recurrence(32, 9001)).subgraphs.size() == 25);
}

TEST_CASE("a view of a parameter does not weld two places together") {
  GraphBuilder b;
  b.input("a", k2x3).input("c", k2x3);
  b.placeholder(NodeKind::parameter, "w", dense({3}));
  b.call("v", "unsqueeze", {"w"}, dense({1, 3}));
  b.call("s", "add", {"a", "v"}, k2x3).call("p", "mul", {"c", "v"}, k2x3);
  b.outputs({"s", "p"});
  const Plan plan = cut(b.graph);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[0].inputs == Names{"a", "v"});
}

TEST_CASE("a view at the end is the framework's") {
  GraphBuilder b;
  b.input("a", k2x3).call("r", "relu", {"a"}, k2x3);
  b.call("v", "view", {"r"}, dense({6}))
      .call("u", "unsqueeze", {"v"}, dense({1, 6}));
  b.outputs({"u"});
  const Plan plan = cut(b.graph);
  CHECK(plan.placements.at(0).nodes == Names{"r"});
  CHECK(plan.placements.at(0).outputs == Names{"r"});
}

TEST_CASE("a view used inside and outside is made again outside") {
  GraphBuilder b;
  b.input("a", k2x3).call("r", "relu", {"a"}, k2x3);
  b.call("v", "view", {"r"}, dense({6}))
      .call("w", "view", {"v"}, dense({3, 2}));
  b.call("e", "exp", {"w"}, dense({3, 2})).outputs({"e", "w"});
  const Plan plan = cut(b.graph);
  CHECK(plan.placements.at(0).nodes == Names{"r", "v", "w", "e"});
  CHECK(plan.placements.at(0).outputs == Names{"r", "e"});
  CHECK(plan.model.outputs == Names{"e", "w_outside"});
  const Node* twin = plan.model.find("w_outside");
  REQUIRE(twin);
  CHECK(twin->args[0] == Arg{NodeRef{"v_outside"}});
  CHECK(plan.model.find("v_outside")->args[0] == Arg{NodeRef{"r"}});
}

TEST_CASE("a call with several results stays with what reads them") {
  GraphBuilder b;
  b.input("a", k2x3).tuple("m", "var_mean", {"a"},
                           {dense({2, 1}), dense({2, 1})});
  b.getitem("variance", "m", 0).getitem("mean", "m", 1);
  b.call("d", "sub", {"a", "mean"}, k2x3).outputs({"d", "variance"});
  const Plan plan = cut(b.graph);
  CHECK(plan.placements.at(0).nodes == Names{"m", "variance", "mean", "d"});
  CHECK(plan.placements.at(0).outputs == Names{"variance", "d"});
  CHECK(plan.subgraphs[0].graph.output_template == "({0}, {1})");
}

TEST_CASE("random calls stay outside and in order") {
  GraphBuilder b;
  b.input("a", k2x3).call("r1", "rand_like", {"a"}, k2x3);
  b.call("s", "add", {"a", "r1"}, k2x3).call("r2", "rand_like", {"a"}, k2x3);
  b.call("p", "mul", {"s", "r2"}, k2x3).call("r3", "rand_like", {"p"}, k2x3);
  b.call("q", "mul", {"s", "r3"}, k2x3).outputs({"p", "q"});
  const Plan plan = cut(b.graph);
  Names drawn;
  for (const Node& node : plan.model.nodes) {
    if (node.target.find("rand") != std::string::npos)
      drawn.push_back(node.name);
  }
  CHECK(drawn == Names{"r1", "r2", "r3"});
  CHECK(extern_counts(plan).at("aten.rand_like.default") == 3);
}

TEST_CASE("a new value of a buffer is an output") {
  GraphBuilder b;
  b.placeholder(NodeKind::buffer, "m", dense({3}), "bn.running_mean");
  b.call("h", "mul", {"m"}, dense({3}), {{0.9}});
  b.graph.mutations = {{"bn.running_mean", false, "h"}};
  b.graph.output_template = "None";
  CHECK(cut(b.graph).placements.at(0).outputs == Names{"h"});
}

TEST_CASE("equal graphs give equal plans") {
  GraphBuilder b;
  b.input("a", k2x3).input("c", k2x3).call("s", "add", {"a", "c"}, k2x3);
  b.outputs({"s"});
  CHECK(plan_to_json(cut(b.graph)) == plan_to_json(cut(b.graph)));
}

}  // namespace
}  // namespace weft
