#include <doctest/doctest.h>

#include "compiler/choices/choices.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

Graph product() {
  Graph graph;
  add_input(graph, "x", dense({256, 512}));
  add_input(graph, "w", dense({512, 128}));
  add_call(graph, "y", "aten.mm.default", {ref("x"), ref("w")},
           dense({256, 128}));
  add_call(graph, "z", "aten.relu.default", {ref("y")}, dense({256, 128}));
  graph.outputs = {"z"};
  return graph;
}

Graph pooled() {
  Graph graph;
  add_input(graph, "x", dense({8, 64, 65, 65}));
  add_call(graph, "y", "aten.avg_pool2d.default",
           {ref("x"), list({3, 3}), list({2, 2})}, dense({8, 64, 32, 32}));
  graph.outputs = {"y"};
  return graph;
}

Machine h200() {
  Machine machine;
  Gpu& gpu = machine.gpus.emplace_back();
  gpu.arch = "sm_90";
  gpu.sms = 132;
  gpu.l2_bytes = 60 << 20;
  gpu.shared_bytes = 227 << 10;
  return machine;
}

}  // namespace

// Nothing that a result depends on is a choice, so that any value gives code,
// and soon.
TEST_CASE("every choice at its bounds gives code") {
  const std::vector<Graph> graphs = {product(), pooled(), softmax(64, 4 << 20),
                                     softmax(4096, 8192),
                                     variance(16, 1 << 16)};
  const Machine machine = h200();
  for (const NamedChoice& one : list_choices()) {
    for (const double value : {one.least, one.most}) {
      CAPTURE(one.name);
      CAPTURE(value);
      const auto choices = choices_with({{one.name, value}});
      REQUIRE(choices.has_value());
      for (const Graph& graph : graphs) {
        const bool is_cpu = one.name.starts_with("cpu.");
        const Target* target = find_target(is_cpu ? "cpu" : "gpu");
        const auto sources = generate_sources(*target, subgraph_of(graph),
                                              is_cpu ? Machine{} : machine,
                                              {2, false, *choices});
        const bool has_code = sources.has_value() && !sources->empty();
        const bool is_refused =
            !sources && sources.error().code == ErrorCode::wrong_input;
        CHECK((has_code || is_refused));
      }
    }
  }
}

TEST_CASE("a choice changes the kernels of its target") {
  const auto text = [](const std::map<std::string, double>& values) {
    const auto sources = generate_sources(
        *find_target("cuda"), subgraph_of(softmax(64, 4 << 20)), h200(),
        {1, false, choices_with(values).value()});
    return sources.value().front().kernel.text;
  };
  const std::string defaults = text({});
  CHECK(text({{"cuda.stream.ahead_bytes", 16384}}) != defaults);
  CHECK(text({{"triton.nest.column_steps", 16}}) == defaults);
}
