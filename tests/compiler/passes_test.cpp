#include "compiler/passes.hpp"

#include <doctest/doctest.h>

#include "compiler/graph_check.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

using Names = std::vector<std::string>;
const TensorType k4 = dense({4});

Names calls_of(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::call) names.push_back(node.name);
  }
  return names;
}

TEST_CASE("a call that nothing needs goes, with what only it needed") {
  GraphBuilder b;
  b.input("a", k4).call("r", "relu", {"a"}, k4).call("e", "exp", {"r"}, k4);
  b.call("s", "sin", {"a"}, k4).outputs({"s"});
  const Graph graph = eliminate_dead_code(b.graph);
  CHECK(calls_of(graph) == Names{"s"});
  CHECK(graph.find("a") != nullptr);
}

TEST_CASE("the new value of a buffer is needed") {
  GraphBuilder b;
  b.placeholder(NodeKind::buffer, "m", k4).call("r", "relu", {"m"}, k4);
  b.graph.mutations = {{"m", false, "r"}};
  CHECK(calls_of(eliminate_dead_code(b.graph)) == Names{"r"});
}

TEST_CASE("an unused draw stays: the next one depends on it") {
  GraphBuilder b;
  b.input("a", k4).call("d", "rand_like", {"a"}, k4).outputs({"a"});
  CHECK(calls_of(eliminate_dead_code(b.graph)) == Names{"d"});
}

TEST_CASE("equal calls become one, also down the chain") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("r2", "relu", {"a"}, k4);
  b.call("e1", "exp", {"r1"}, k4).call("e2", "exp", {"r2"}, k4);
  b.call("s", "add", {"e1", "e2"}, k4).outputs({"s"});
  const Graph graph = eliminate_common_subexpressions(b.graph);
  CHECK(calls_of(graph) == Names{"r1", "e1", "s"});
  CHECK(graph.find("s")->args[1] == Arg{NodeRef{"e1"}});
}

TEST_CASE("an integer and a float argument are not equal") {
  GraphBuilder b;
  b.input("a", k4);
  b.call("s1", "mul", {"a"}, k4, {{std::int64_t{2}}});
  b.call("s2", "mul", {"a"}, k4, {{2.0}});
  b.call("s", "add", {"s1", "s2"}, k4).outputs({"s"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("two draws are never one") {
  GraphBuilder b;
  b.input("a", k4).call("d1", "rand_like", {"a"}, k4);
  b.call("d2", "rand_like", {"a"}, k4).call("s", "add", {"d1", "d2"}, k4);
  b.outputs({"s"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("two results that leave the model stay two tensors") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("r2", "relu", {"a"}, k4);
  b.call("v", "view", {"r2"}, dense({2, 2})).outputs({"r1", "v"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("a graph that writes in place is left alone") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("w", "add_", {"a"}, k4);
  b.call("r2", "relu", {"a"}, k4).call("s", "add", {"r1", "r2"}, k4);
  b.outputs({"s"});
  CHECK(eliminate_common_subexpressions(b.graph) == b.graph);
}

Graph convolution_then(const std::string& op, bool biased) {
  GraphBuilder b;
  const auto image = dense({2, 3, 4, 4});
  b.input("x", dense({2, 3, 6, 6}));
  b.placeholder(NodeKind::parameter, "w", dense({3, 3, 3, 3}));
  b.placeholder(NodeKind::parameter, "b", dense({3}));
  b.call("y", "convolution", {"x", "w"}, image,
         {biased ? Arg{NodeRef{"b"}} : Arg{}});
  b.call("z", op, {"y"}, image).outputs({"z"});
  return b.graph;
}

/// Everything but convolutions and relu.
bool few(const Graph&, const Node& call) {
  return call.target != "aten.convolution.default" &&
         call.target != "aten.relu.default";
}

TEST_CASE("the bias of the library's convolution joins what follows it") {
  const Graph graph = separate_bias(convolution_then("exp", true), few);
  CHECK(calls_of(graph) == Names{"y_without_bias", "y_bias", "y", "z"});
  CHECK(graph.find("y_without_bias")->args[2] == Arg{});
  CHECK(graph.find("y_bias")->values[0]->shape ==
        std::vector<std::int64_t>{3, 1, 1});
  CHECK(graph.find("y")->target == "aten.add.Tensor");
  CHECK(graph.find("y")->values == graph.find("z")->values);
  CHECK(check_graph(graph));
}

TEST_CASE("a bias that nothing of ours could add stays where it is") {
  for (const Graph& graph :
       {convolution_then("relu", true), convolution_then("exp", false)}) {
    CHECK(separate_bias(graph, few) == graph);
  }
  const auto all = [](const Graph&, const Node&) { return true; };
  const Graph ours = convolution_then("exp", true);
  CHECK(separate_bias(ours, all) == ours);
}

}  // namespace
}  // namespace weft
