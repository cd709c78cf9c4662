// What the rules of gradients leave to the framework; what they compute is held
// against it in tests/python/test_gathered_gradients.py.
#include <doctest/doctest.h>

#include "compiler/fusion/lowerable.hpp"
#include "tests/compiler/graph_builder.hpp"

using namespace weft;

namespace {

Arg list(const std::vector<std::int64_t>& values) {
  Arg::List entries;
  for (const std::int64_t value : values) entries.push_back({value});
  return {std::move(entries)};
}

bool lowers(const Graph& graph) {
  return can_lower(graph, graph.nodes.back(), {});
}

Graph nearest(std::int64_t from, std::int64_t to, Arg factor = {}) {
  GraphBuilder graph;
  graph.input("g", dense({2, 3, to}))
      .call("y", "upsample_nearest1d_backward", {"g"}, dense({2, 3, from}),
            {list({to}), list({2, 3, from}), std::move(factor)});
  return graph.graph;
}

}  // namespace

TEST_CASE("Outputs that float arithmetic puts elsewhere stay the framework's") {
  CHECK(lowers(nearest(7, 14)));
  CHECK(lowers(nearest(7, 5)));
  // A factor that the sizes do not have.
  CHECK(lowers(nearest(10, 15, Arg{1.5})));
  CHECK_FALSE(lowers(nearest(10, 19, Arg{1.5})));
}
