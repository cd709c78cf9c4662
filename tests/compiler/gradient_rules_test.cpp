// Gradients that the rules leave to PyTorch. The values of the others are
// compared with PyTorch's in tests/python/test_gathered_gradients.py.
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

bool lowers(const Graph& graph, const LoweringOptions& options = {}) {
  return can_lower(graph, graph.nodes.back(), options);
}

Graph nearest(std::int64_t from, std::int64_t to, Arg factor = {}) {
  GraphBuilder graph;
  graph.input("g", dense({2, 3, to}))
      .call("y", "upsample_nearest1d_backward", {"g"}, dense({2, 3, from}),
            {list({to}), list({2, 3, from}), std::move(factor)});
  return graph.graph;
}

Graph embedding(std::int64_t entries, std::int64_t rows, bool scaled = false) {
  GraphBuilder graph;
  graph.input("g", dense({entries, 8}))
      .input("i", dense({entries}, DType::i64))
      .call("y", "embedding_dense_backward", {"g", "i"}, dense({rows, 8}),
            {Arg{rows}, Arg{std::int64_t{-1}}, Arg{scaled}});
  return graph.graph;
}

Graph index_put(bool accumulates) {
  GraphBuilder graph;
  graph.input("x", dense({5, 8}))
      .input("i", dense({3}, DType::i64))
      .input("v", dense({3, 8}));
  Node node;
  node.name = "y";
  node.target = "aten.index_put.default";
  node.args = {Arg{NodeRef{"x"}}, Arg{Arg::List{Arg{NodeRef{"i"}}}},
               Arg{NodeRef{"v"}}, Arg{accumulates}};
  node.values = {dense({5, 8})};
  graph.graph.nodes.push_back(std::move(node));
  return graph.graph;
}

}  // namespace

TEST_CASE(
    "Sums to places are ours where few rows or few entries are looked at") {
  LoweringOptions options;
  options.choices.summed_places_max = 64;
  CHECK(lowers(embedding(5000, 64), options));
  CHECK(lowers(embedding(64, 5000), options));
  CHECK_FALSE(lowers(embedding(65, 65), options));
  options.choices.summed_places_max = 65;
  CHECK(lowers(embedding(65, 65), options));
}

TEST_CASE("A gradient scaled by how often a row was read is ours, too") {
  CHECK(lowers(embedding(5, 5)));
  CHECK(lowers(embedding(5, 5, true)));
}

TEST_CASE("Where the last of equal places wins is the framework's to say") {
  CHECK(lowers(index_put(true)));
  CHECK_FALSE(lowers(index_put(false)));
}

TEST_CASE("Outputs that float arithmetic puts elsewhere stay the framework's") {
  CHECK(lowers(nearest(7, 14)));
  CHECK(lowers(nearest(7, 5)));
  // A factor that the sizes do not have.
  CHECK(lowers(nearest(10, 15, Arg{1.5})));
  CHECK_FALSE(lowers(nearest(10, 19, Arg{1.5})));
}

TEST_CASE("PadGradient_RefusesAGradientOfAnotherRank") {
  // Found by the fuzzer: the margins' dimension was written past the shape.
  GraphBuilder graph;
  graph.input("g", dense({1, 4, 4}))
      .input("x", dense({4, 5, 5, 1}))
      .call("y", "replication_pad1d_backward", {"g", "x"}, dense({4, 5, 5, 1}),
            {list({0, -1})});
  CHECK_FALSE(lowers(graph.graph));
}
