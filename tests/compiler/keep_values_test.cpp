#include "compiler/lowering/keep_values.hpp"

#include <doctest/doctest.h>

#include "tests/compiler/gpu_plan.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

Schedule planned(const Graph& graph, const std::set<std::string>& keep = {}) {
  LoweringOptions options;
  options.keep = keep;
  return planned_for_gpu(graph, 16384, options);
}

std::set<std::string> kept_of(const Graph& graph,
                              const LoweringChoices& choices = {}) {
  return worth_keeping(
      graph, [&](const auto& keep) { return planned(graph, keep); }, {},
      choices);
}

/// "r", the sum of so many tensors, and sums of its rows and its columns: no
/// kernel walks both.
Graph sum_read_twice(int addends, std::vector<std::int64_t> shape) {
  Graph graph;
  const TensorType type = dense(shape);
  for (int i = 0; i < addends; ++i) {
    add_input(graph, "x" + std::to_string(i), type);
  }
  std::string last = "x0";
  for (int i = 1; i < addends; ++i) {
    const std::string name =
        i + 1 == addends ? "r" : "partial" + std::to_string(i);
    add_call(graph, name, "aten.add.Tensor",
             {ref(last), ref("x" + std::to_string(i))}, type);
    last = name;
  }
  add_call(graph, "rows", "aten.sum.dim_IntList", {ref(last), list({1})},
           dense({shape[0]}));
  add_call(graph, "columns", "aten.sum.dim_IntList", {ref(last), list({0})},
           dense({shape[1]}));
  graph.outputs = {"rows", "columns"};
  return graph;
}

}  // namespace

TEST_CASE("What its kernels move counts each read, write and launch") {
  Graph graph;
  const TensorType type = dense({1024, 1024});
  add_input(graph, "x", type);
  add_input(graph, "y", dense({1024}));
  add_call(graph, "z", "aten.add.Tensor", {ref("x"), ref("y")}, type);
  graph.outputs = {"z"};
  DeviceRates rates;
  rates.memory_gbps = 1;  // a kB in a microsecond
  rates.launch_us = 5;
  const double bytes = 2 * 4.0 * 1024 * 1024 + 4 * 1024;
  CHECK(moving_us(planned(graph), rates) == doctest::Approx(bytes / 1e3 + 5));
}

TEST_CASE("A sum of many that two kernels read is kept") {
  // Three read twice are six reads; kept they are three, a write and two.
  CHECK(kept_of(sum_read_twice(2, {4096, 4096})).empty());
  CHECK(kept_of(sum_read_twice(3, {4096, 4096})).empty());
  CHECK(kept_of(sum_read_twice(5, {4096, 4096})) == std::set<std::string>{"r"});
}

TEST_CASE("A kept value is made by one kernel, and read by the others") {
  const Graph graph = sum_read_twice(5, {4096, 4096});
  const Schedule plan = planned(graph, {"r"});
  REQUIRE(plan.nests.size() == 3);
  CHECK(plan.spilled.size() >= 1);
  CHECK(moving_us(plan, {}) < moving_us(planned(graph), {}));
}

TEST_CASE("Where a launch takes longer than the reads nothing is kept") {
  CHECK(kept_of(sum_read_twice(5, {64, 64})).empty());
}

TEST_CASE("What one kernel reads twice is not kept") {
  Graph graph = sum_read_twice(5, {4096, 1024});
  graph.nodes.resize(graph.nodes.size() - 2);
  const TensorType type = dense({4096, 1024});
  add_call(graph, "s", "aten._softmax.default",
           {ref("r"), integer(1), truth(false)}, type);
  graph.outputs = {"s"};
  CHECK(planned(graph).nests.size() == 1);
  CHECK(kept_of(graph).empty());
}

TEST_CASE("It is tried of so many values, and no more") {
  LoweringChoices choices;
  choices.kept_trials_max = 0;
  CHECK(kept_of(sum_read_twice(5, {4096, 4096}), choices).empty());
}
