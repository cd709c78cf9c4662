// The reasons that decisions are recorded with: of fusion, of who computes a
// product, and of kernels' tiles.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/fusion/partition.hpp"
#include "compiler/targets.hpp"
#include "compiler/triton/product_tile.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

Decision no_products(const Graph&, const Node& call) {
  return {call.target.find("mm") == std::string::npos, "the test forbids it"};
}

FusionReason reason_of(const Plan& plan, const std::string& producer,
                       const std::string& consumer) {
  for (const FusionReason& pair : plan.fusion_reasons) {
    if (pair.producer == producer && pair.consumer == consumer) return pair;
  }
  FAIL("no such pair: " << producer << " -> " << consumer);
  return {};
}

Machine gpu() {
  Machine machine;
  machine.gpus.push_back({.name = "H200", .arch = "sm_90", .sms = 132});
  machine.gpus[0].shared_bytes = 227 << 10;
  return machine;
}

/// x @ y, then relu, of so many rows, columns and summed products.
Graph product(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  GraphBuilder b;
  b.input("x", dense({rows, k})).input("y", dense({k, columns}));
  b.call("z", "mm", {"x", "y"}, dense({rows, columns}));
  b.call("r", "relu", {"z"}, dense({rows, columns})).outputs({"r"});
  return b.graph;
}

const TensorType kSquare = dense({3, 3});

TEST_CASE("Fusion_OfNeighbours_SaysThatNoPathLeavesTheSubgraph") {
  GraphBuilder b;
  b.input("a", kSquare).call("r", "relu", {"a"}, kSquare);
  b.call("e", "exp", {"r"}, kSquare).outputs({"e"});
  const FusionReason pair =
      reason_of(partition(b.graph, no_products), "r", "e");
  CHECK(pair.is_fused);
  CHECK(pair.reason.contains("no path between them leaves the subgraph"));
}

TEST_CASE("Fusion_AcrossACallOfPyTorch_NamesTheCallInBetween") {
  GraphBuilder b;
  b.input("a", kSquare).call("r", "relu", {"a"}, kSquare);
  b.call("m", "mm", {"r", "r"}, kSquare);
  b.call("s", "add", {"r", "m"}, kSquare).outputs({"s"});
  const Plan plan = partition(b.graph, no_products);
  const FusionReason around = reason_of(plan, "r", "s");
  CHECK_FALSE(around.is_fused);
  CHECK(around.reason.contains("through m"));
  CHECK(reason_of(plan, "r", "m").reason == "m stays PyTorch's");
  CHECK(plan.call_reasons.at("m").reason == "the test forbids it");
  CHECK_FALSE(plan.call_reasons.at("m"));
}

TEST_CASE("Fusion_OfACallThatIsKeptApart_GivesThatReason") {
  GraphBuilder b;
  b.input("a", kSquare).call("r", "relu", {"a"}, kSquare);
  b.call("e", "exp", {"r"}, kSquare).outputs({"e"});
  const Plan plan = partition(b.graph, no_products, {{"e", "is apart here"}});
  CHECK(plan.placements.size() == 2);
  CHECK(reason_of(plan, "r", "e").reason == "e is apart here");
}

TEST_CASE("Fusion_OfADissolvedRegion_SaysThatItDidNoWork") {
  GraphBuilder b;
  b.input("a", kSquare).call("c", "clone", {"a"}, kSquare);
  b.call("m", "mm", {"c", "c"}, kSquare).outputs({"m"});
  const Plan plan = partition(b.graph, no_products);
  CHECK(plan.placements.empty());
  CHECK(plan.call_reasons.at("c").reason.contains("only view, fill or copy"));
}

TEST_CASE("Contraction_BothWays_GivesTheEstimatedTimesItWasDecidedBy") {
  const Graph graph = product(1024, 1024, 1024);
  for (const char* name : {"triton", "gpu"}) {
    CutOptions cut;
    cut.undecided = CutOptions::Undecided::vendor;
    const ContractionDecision decision =
        choose_contraction(graph, *graph.find("z"), cut);
    CHECK(decision.reason.contains("a generated kernel takes"));
    CHECK(decision.reason.contains(" us, the vendor library "));
    const Plan plan = partition(graph, *find_target(name), cut);
    CHECK(plan.call_reasons.at("z").reason.contains(decision.reason));
  }
}

TEST_CASE("ProductTile_ComparesAllTiles_AndTakesTheLeastTime") {
  const GpuFacts facts = {.sms = 132};
  const auto [tile, options] =
      choose_product_tile({.rows = 4096, .columns = 1024, .k = 512}, facts);
  CHECK(options.size() > 4);
  const auto least =
      std::ranges::min_element(options, {}, &EstimatedOption::us);
  CHECK(least->name.starts_with(std::to_string(tile.rows) + "x" +
                                std::to_string(tile.columns)));
  // A tile that is not allowed is not compared.
  const auto without = choose_product_tile(
      {.rows = 4096, .columns = 1024, .k = 512, .may_split_factors = false},
      facts);
  CHECK(without.options.size() < options.size());
}

TEST_CASE("Sources_OfEveryTarget_HaveAReasonForEachKernel") {
  GraphBuilder b;
  const auto rows = dense({64, 512});
  b.input("a", rows).call("s", "_softmax", {"a"}, rows,
                          {{std::int64_t{1}}, {false}});
  b.call("m", "amax", {"s"}, dense({}), {}).outputs({"s", "m"});
  for (const char* name : {"cpu", "triton", "cuda", "gpu"}) {
    CAPTURE(name);
    const Target& target = *find_target(name);
    const Machine machine = target.on_gpu ? gpu() : Machine();
    const Plan plan = partition(b.graph, target);
    REQUIRE(plan.subgraphs.size() == 1);
    const auto sources =
        generate_sources(target, plan.subgraphs.front(), machine, {});
    REQUIRE(sources);
    for (const TargetSource& source : *sources) {
      REQUIRE_FALSE(source.kernel.reasons.empty());
      CHECK(source.kernel.reasons.front().nest == "it is the first");
      for (const KernelReason& kernel : source.kernel.reasons) {
        CHECK_FALSE(kernel.kernel.empty());
        CHECK_FALSE(kernel.nest.empty());
        CHECK_FALSE(kernel.tile.empty());
        CHECK_FALSE(kernel.reason.empty());
      }
      // What is reduced to one number is complete only after the rows are.
      CHECK(source.kernel.reasons.size() > 1);
    }
  }
}

TEST_CASE("Sources_OfAProduct_ListTheTilesThatWereCompared") {
  const Graph graph = product(2048, 2048, 512);
  const Target& triton = *find_target("triton");
  const Plan plan = partition(graph, triton, {.no_extern = true});
  REQUIRE(plan.subgraphs.size() == 1);
  const auto sources =
      generate_sources(triton, plan.subgraphs.front(), gpu(), {});
  REQUIRE(sources);
  const KernelReason& first = sources->front().kernel.reasons.back();
  CHECK(first.reason.starts_with("it takes the least time by the cost model"));
  CHECK(first.options.size() > 4);
  CHECK(first.nest == "a product on matrix units begins a kernel");
}

}  // namespace
}  // namespace weft
