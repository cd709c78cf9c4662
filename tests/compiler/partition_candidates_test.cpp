// Which calls are ours, the library's, or for timing to decide.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/choices/choices.hpp"
#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

struct Filters {
  std::int64_t channels = 3;
  std::int64_t results = 64;
  std::int64_t groups = 1;
  std::int64_t images = 64;
  std::int64_t extent = 128;
  bool transposed = false;
};

/// A 3 × 3 convolution in TF32, and relu of it.
Graph filtered(const Filters& of, bool without_consumer = false) {
  Graph graph;
  const TensorType made = dense({of.images, of.results, of.extent, of.extent});
  const std::int64_t from = of.transposed ? of.channels : of.results;
  const std::int64_t to = of.transposed ? of.results : of.channels;
  add_input(graph, "x", dense({of.images, of.channels, of.extent, of.extent}));
  add_input(graph, "w", dense({from, to / of.groups, 3, 3}));
  add_convolution(graph, "y", "x", "w",
                  {{1, 1}, {1, 1}, of.transposed, of.groups}, made);
  graph.nodes.back().tf32 = true;
  graph.outputs = {"y"};
  if (without_consumer) return graph;
  add_call(graph, "z", "aten.relu.default", {ref("y")}, made);
  graph.outputs = {"z"};
  return graph;
}

ContractionChoice decided(const Filters& of, const CutOptions& cut = {}) {
  const Graph graph = filtered(of);
  return choose_contraction(graph, graph.nodes[2], cut);
}

bool is_extern(const Plan& plan, const std::string& part) {
  const auto externs = extern_counts(plan);
  return std::ranges::any_of(externs, [&](const auto& one) {
    return one.first.find(part) != std::string::npos;
  });
}

Plan ways(const Graph& graph, const char* target = "gpu",
          const CutOptions& cut = {}) {
  return partition_candidates(graph, *find_target(target), cut);
}

}  // namespace

TEST_CASE(
    "short sums are ours, long ones the library's, timing decides between") {
  CHECK(decided({.channels = 3}) == ContractionChoice::generated);
  CHECK(decided({.channels = 32}) == ContractionChoice::undecided);
  CHECK(decided({.channels = 256, .results = 256}) ==
        ContractionChoice::vendor);
}

TEST_CASE("a depthwise convolution is ours") {
  CHECK(decided({.channels = 64, .results = 64, .groups = 64}) ==
        ContractionChoice::generated);
}

TEST_CASE("of what takes a launch's time nobody knows") {
  const Filters small{.channels = 16, .images = 1, .extent = 8};
  CHECK(decided(small) == ContractionChoice::undecided);
}

TEST_CASE("channels that fill no tile count as if they did") {
  CHECK(decided({.channels = 64, .results = 3}) == ContractionChoice::vendor);
  CHECK(decided({.channels = 32, .results = 48}) != ContractionChoice::vendor);
}

TEST_CASE("on a device with a fast memory more is the library's") {
  CutOptions fast;
  fast.rates.memory_gbps *= 4;
  CHECK(decided({.channels = 32}, fast) == ContractionChoice::vendor);
}

TEST_CASE("a convolution that timing has to decide is cut in both ways") {
  const Plan plan = ways(filtered({.channels = 32}));
  CHECK(extern_counts(plan).empty());
  REQUIRE(plan.others.size() == 1);
  const Plan& library = plan.others.front();
  CHECK(is_extern(library, "convolution"));
  CHECK_FALSE(library.placements.empty());
  CHECK(plan.label != library.label);
  CHECK(all_subgraphs(plan).size() >
        std::max(plan.subgraphs.size(), library.subgraphs.size()));
}

TEST_CASE("what the cost model can tell is cut in one way") {
  CHECK(ways(filtered({.channels = 3})).others.empty());
  const Plan library = ways(filtered({.channels = 256, .results = 256}));
  CHECK(is_extern(library, "convolution"));
}

TEST_CASE("one way leaves nothing to decide") {
  const Graph graph = filtered({.channels = 32});
  CHECK(ways(graph, "cpu").others.empty());
  CHECK(ways(graph, "gpu", {.no_extern = true}).others.empty());
  CutOptions one;
  one.choices.contraction.cuts_max = 1;
  CHECK(ways(graph, "gpu", one).others.empty());
}

TEST_CASE("alone, an ordinary convolution is tried whatever it takes") {
  const Plan plan = ways(filtered({.channels = 256, .results = 256}, true));
  CHECK(plan.placements.size() == 1);
  CHECK(plan.others.empty());
}

TEST_CASE("alone, a transposed one is tried beside the library's, relaid") {
  const Plan plan =
      ways(filtered({.channels = 64, .results = 64, .transposed = true}, true));
  CHECK(extern_counts(plan).empty());
  REQUIRE_FALSE(plan.others.empty());
  CHECK(is_extern(plan.others.front(), "convolution"));
}

TEST_CASE("products of float32 are ours: the library's take longer") {
  Graph graph;
  add_input(graph, "a", dense({4096, 4096}));
  add_input(graph, "b", dense({4096, 4096}));
  add_call(graph, "y", "aten.mm.default", {ref("a"), ref("b")},
           dense({4096, 4096}));
  add_call(graph, "z", "aten.relu.default", {ref("y")}, dense({4096, 4096}));
  graph.outputs = {"z"};
  CHECK(choose_contraction(graph, graph.nodes[2], {}) ==
        ContractionChoice::generated);
  graph.nodes[2].tf32 = true;
  CHECK(choose_contraction(graph, graph.nodes[2], {}) ==
        ContractionChoice::undecided);
}

TEST_CASE("with little time convolutions work in the layout of the model") {
  const Graph graph = filtered({.channels = 256, .results = 256});
  const Target& target = *find_target("triton");
  CHECK_FALSE(partition(graph, target).model.nodes.size() ==
              graph.nodes.size());  // with copies into another
  const Plan plan = partition_for_short_run(graph, target);
  CHECK(plan.model.nodes.size() == graph.nodes.size());
  CHECK_FALSE(plan.placements.empty());
}

TEST_CASE(
    "a convolution of the eager-contractions partition works in the layout of "
    "the model") {
  const Graph graph = filtered({.channels = 256, .results = 256});
  Plan plan = partition(graph, *find_target("triton"));
  add_eager_contractions_partition(graph, *find_target("triton"), {}, plan);
  const auto layout_in = [](const Plan& cut) {
    const auto call =
        std::ranges::find(cut.model.nodes, "aten.convolution.default",
                          [](const Node& node) { return node.target; });
    return call->values.front()->stride;
  };
  REQUIRE(plan.eager_contractions_partition.size() == 1);
  const auto as_captured = graph.find("y")->values.front()->stride;
  CHECK(layout_in(plan) != as_captured);  // channels last is faster
  CHECK(layout_in(plan.eager_contractions_partition.front()) == as_captured);
}

TEST_CASE("a plan travels with its other cuts") {
  const Plan plan = ways(filtered({.channels = 32}));
  const auto back = parse_plan(plan_to_json(plan));
  REQUIRE(back.has_value());
  CHECK(plan_to_json(*back) == plan_to_json(plan));
  REQUIRE(back->others.size() == 1);
  CHECK(back->others[0].label == plan.others[0].label);
}

TEST_CASE("a stored plan whose other cuts have others is damaged") {
  Plan plan = ways(filtered({.channels = 32}));
  plan.others[0].others.push_back(plan.others[0]);
  CHECK_FALSE(parse_plan(plan_to_json(plan)).has_value());
}
