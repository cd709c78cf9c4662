#include "compiler/fusion/regroup.hpp"

#include <doctest/doctest.h>

#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

using Names = std::vector<std::string>;
const TensorType k3x3 = dense({3, 3});

bool no_products(const Graph&, const Node& call) {
  return call.target.find("mm") == std::string::npos;
}

/// relu, a product, exp and tanh beside each other, their sum.
Plan diamond() {
  GraphBuilder b;
  b.input("a", k3x3).call("r", "relu", {"a"}, k3x3);
  b.call("m", "mm", {"r", "r"}, k3x3);
  b.call("e", "exp", {"m"}, k3x3).call("t", "tanh", {"r"}, k3x3);
  b.call("s", "add", {"e", "t"}, k3x3).outputs({"s"});
  REQUIRE(check_graph(b.graph));
  return partition(b.graph, no_products);
}

std::string refusal(const CallGroups& groups) {
  const auto plan = regroup(diamond(), groups);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::wrong_input);
  return plan.error().message;
}

TEST_CASE("a group holds what the compiler has no code for") {
  const auto plan = regroup(diamond(), {{"r", "m", "e", "t", "s"}});
  REQUIRE(plan);
  REQUIRE(plan->placements.size() == 1);
  CHECK(plan->placements[0].inputs == Names{"a"});
  CHECK(plan->placements[0].outputs == Names{"s"});
  CHECK(extern_counts(*plan).empty());
  for (const Subgraph& piece : plan->subgraphs) {
    CHECK(check_graph(piece.graph));
  }
}

TEST_CASE("pieces of which no call is named stay") {
  const Plan before = diamond();
  const auto same = regroup(before, {});
  REQUIRE(same);
  CHECK(plan_to_json(*same) == plan_to_json(before));
  const auto plan = regroup(before, {{"m", "e"}});
  REQUIRE(plan);
  const auto holds = [&](const std::string& name) {
    for (const Placement& placement : plan->placements) {
      for (const std::string& node : placement.nodes) {
        if (node == name) return true;
      }
    }
    return false;
  };
  CHECK(holds("m"));
  CHECK(holds("e"));
}

TEST_CASE("what is no convex partition is refused, and the reason said") {
  CHECK(refusal({{"r", "e"}}).contains("goes through 'm', which is not in it"));
  CHECK(refusal({{"r", "t"}, {"m", "s"}}).contains("group 2 is not convex"));
  CHECK(refusal({{"r"}, {"r", "t"}}).contains("is in group 1 and in group 2"));
  CHECK(refusal({{"r", "nobody"}}).contains("names 'nobody'"));
  CHECK(refusal({{"a"}}).contains("no call of the model"));
  CHECK(refusal({{}}).contains("is empty"));
}

TEST_CASE("groups that wait for each other are refused") {
  GraphBuilder b;
  b.input("a", k3x3).input("b", k3x3);
  b.call("a1", "relu", {"a"}, k3x3).call("b1", "exp", {"a1"}, k3x3);
  b.call("b2", "exp", {"b"}, k3x3).call("a2", "relu", {"b2"}, k3x3);
  // What waits for the circle, and what it waits for, is no part of it.
  b.input("c", k3x3).call("c1", "tanh", {"c"}, k3x3);
  b.call("a3", "add", {"a2", "c1"}, k3x3).call("d1", "tanh", {"a3"}, k3x3);
  b.outputs({"b1", "d1"});
  const auto plan = regroup(partition(b.graph, no_products),
                            {{"c1"}, {"a1", "a2", "a3"}, {"d1"}, {"b1", "b2"}});
  REQUIRE_FALSE(plan);
  CHECK(plan.error().message ==
        "group 2 and group 4 wait for each other's results");
}

TEST_CASE("results of one call stay with it") {
  GraphBuilder b;
  b.input("a", k3x3).tuple("p", "topk", {"a"}, {k3x3, k3x3});
  b.getitem("p0", "p", 0).getitem("p1", "p", 1);
  b.call("s", "add", {"p0", "p1"}, k3x3).outputs({"s", "p1"});
  const auto plan = regroup(partition(b.graph, no_products), {{"p"}});
  REQUIRE(plan);
  REQUIRE(plan->placements.size() == 1);
  CHECK(plan->placements[0].outputs == Names{"p0", "p1"});
}

TEST_CASE("a call of several results that has no code is a piece of its own") {
  GraphBuilder b;
  const TensorType indices = dense({3, 3}, DType::i64);
  b.input("a", k3x3).tuple("p", "topk", {"a"}, {k3x3, indices});
  b.getitem("p0", "p", 0).getitem("p1", "p", 1);
  b.call("r", "relu", {"p0"}, k3x3).outputs({"r", "p1"});
  CutOptions cut;
  cut.others = CutOptions::Others::separate;
  const Plan plan = partition(b.graph, *find_target("cpu"), cut);
  REQUIRE(plan.placements.size() == 2);
  CHECK(plan.placements[0].outputs.size() == 2);
  CHECK(extern_counts(plan).empty());
}

}  // namespace
}  // namespace weft
