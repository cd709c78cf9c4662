#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/fusion/lowerable.hpp"
#include "compiler/lowering/lower.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

LoweringOptions contractions() {
  LoweringOptions options;
  options.contractions = true;
  return options;
}

Graph product() {
  Graph graph;
  add_input(graph, "x", dense({6, 8}));
  add_input(graph, "y", dense({8, 5}));
  add_call(graph, "z", "aten.mm.default", {ref("x"), ref("y")}, dense({6, 5}));
  graph.outputs = {"z"};
  return graph;
}

// The same of a sum of so many inputs.
Graph product_of_sum(int terms) {
  Graph graph;
  for (int i = 0; i < terms; ++i) {
    add_input(graph, "x" + std::to_string(i), dense({6, 8}));
  }
  add_input(graph, "y", dense({8, 5}));
  std::string sum = "x0";
  for (int i = 1; i < terms; ++i) {
    const std::string name = "s" + std::to_string(i);
    add_call(graph, name, "aten.add.Tensor",
             {ref(sum), ref("x" + std::to_string(i))}, dense({6, 8}));
    sum = name;
  }
  add_call(graph, "z", "aten.mm.default", {ref(sum), ref("y")}, dense({6, 5}));
  graph.outputs = {"z"};
  return graph;
}

// Stride 2, padding as given, one dimension.
Graph convolution(bool transposed, std::int64_t taps, std::int64_t padding,
                  std::int64_t out) {
  Graph graph;
  add_input(graph, "x", dense({1, 3, 9}));
  add_input(graph, "w", dense({3, 3, taps}));
  add_convolution(graph, "y", "x", "w", {{2}, {padding}, transposed},
                  dense({1, 3, out}));
  graph.outputs = {"y"};
  return graph;
}

// The two loads that the program's only reduction sums the products of, where
// they meet.
std::pair<Scalar, Scalar> factors(const Program& program) {
  REQUIRE(program.stages.size() == 2);
  const Stage& sum = program.stages[0];
  REQUIRE(sum.is_reduction);
  REQUIRE(sum.reduction == Reduction::sum);
  Scalar value = program.arena[sum.value];
  if (value.function == "select") value = program.arena[value.arguments[1]];
  REQUIRE(value.function == "product");
  const Scalar a = program.arena[value.arguments[0]];
  const Scalar b = program.arena[value.arguments[1]];
  REQUIRE(a.op == ScalarOp::load);
  REQUIRE(b.op == ScalarOp::load);
  return {a, b};
}

std::int64_t steps(const Program& program) {
  std::int64_t count = 1;
  for (const LoopVar& v : program.stages[0].inner) count *= v.extent;
  return count;
}

}  // namespace

TEST_CASE("a factor that many reads make is kept, one of few is not") {
  const auto few = lower(product_of_sum(4), contractions());
  REQUIRE(few.has_value());
  CHECK(few->stages.size() == 2);  // the product, and its result's store
  const auto many = lower(product_of_sum(20), contractions());
  REQUIRE(many.has_value());
  REQUIRE(many->stages.size() == 3);
  CHECK(many->stages[0].is_reduction);
  CHECK(many->stages[0].inner.empty());  // nothing is reduced away
  const Stage& sum = many->stages[1];
  const Scalar& value = many->arena[sum.value];
  CHECK(many->arena[value.arguments[0]].buffer == many->stages[0].results[0]);
}

TEST_CASE("Contractions are lowered only for who asks for them") {
  const Graph graph = product();
  CHECK_FALSE(can_lower(graph, graph.nodes.back(), {}));
  CHECK(can_lower(graph, graph.nodes.back(), contractions()));
}

TEST_CASE("A matrix product is one sum of the product of two loads") {
  const auto program = lower(product(), contractions());
  REQUIRE(program.has_value());
  const auto [a, b] = factors(*program);
  CHECK_FALSE(a.guarded);
  CHECK_FALSE(b.guarded);
  CHECK(a.index[0].is_affine());
  CHECK(b.index[0].is_affine());
  CHECK(steps(*program) == 8);
}

TEST_CASE("A convolution guards its input only where it is padded") {
  const auto bare = lower(convolution(false, 3, 0, 4), contractions());
  REQUIRE(bare.has_value());
  CHECK_FALSE(factors(*bare).first.guarded);
  const auto padded = lower(convolution(false, 3, 1, 5), contractions());
  REQUIRE(padded.has_value());
  CHECK(factors(*padded).first.guarded);
  CHECK_FALSE(factors(*padded).second.guarded);
}

TEST_CASE("Padded windows see through a view") {
  Graph graph;
  add_input(graph, "x", dense({2, 3, 9}));
  add_call(graph, "v", "aten.unsqueeze.default", {ref("x"), integer(2)},
           dense({2, 3, 1, 9}));
  add_call(graph, "y", "aten.avg_pool2d.default",
           {ref("v"), list({1, 3}), list({1, 1}), list({0, 1})},
           dense({2, 3, 1, 9}));
  graph.outputs = {"y"};
  const auto program = lower(graph, {});
  REQUIRE(program.has_value());
  const Scalar& read = program->arena[program->stages[0].value];
  REQUIRE(read.op == ScalarOp::load);
  CHECK(read.guarded);
  CHECK(read.index[0].is_affine());
}

TEST_CASE("A transposed convolution's phases share the inputs that they meet") {
  const Graph graph = convolution(true, 4, 1, 18);
  const auto phases = lower(graph, contractions());
  REQUIRE(phases.has_value());
  // Output 2 b meets inputs b - 1 and b with taps 3 and 1, 2 b + 1 those at b
  // and b + 1 with 2 and 0.
  CHECK(steps(*phases) == 3 * 3);
  const auto [input, weight] = factors(*phases);
  CHECK(input.guarded);
  CHECK(weight.guarded);
}
