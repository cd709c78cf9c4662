// Sources that generate_triton() writes for a graph, for tests that look at
// their text.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/triton/generate.hpp"
#include "tests/compiler/small_graphs.hpp"

namespace weft::testing {

inline Graph product(std::int64_t rows, std::int64_t k, std::int64_t columns) {
  Graph graph;
  add_input(graph, "x", dense({rows, k}));
  add_input(graph, "y", dense({k, columns}));
  add_call(graph, "z", "aten.mm.default", {ref("x"), ref("y")},
           dense({rows, columns}));
  graph.outputs = {"z"};
  return graph;
}

inline Graph of_halves(Graph graph, DType dtype = DType::f16) {
  for (Node& node : graph.nodes) node.values[0]->dtype = dtype;
  return graph;
}

/// Whether the graph's last call has a Triton kernel.
inline bool is_ours(const Graph& graph) {
  return triton_can_lower(graph, graph.nodes.back(), {});
}

/// The sources of the graph's variants.
inline std::vector<std::string> texts(Graph graph, int variants_max = 16,
                                      GpuFacts facts = {}) {
  const auto sources = generate_triton(subgraph_of(std::move(graph)), facts,
                                       {.variants_max = variants_max});
  REQUIRE(sources.has_value());
  std::vector<std::string> found;
  for (const KernelSource& source : *sources) found.push_back(source.text);
  return found;
}

/// The source of the variant that is expected to be the fastest.
inline std::string first(Graph graph, GpuFacts facts = {}) {
  return texts(std::move(graph), 1, facts).front();
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Mean of windows of eight, four over the border, along rows of `extent`.
inline Graph pooled(std::int64_t extent) {
  Graph graph;
  add_input(graph, "x", dense({4, 3, extent}));
  add_call(graph, "y", "aten.avg_pool1d.default",
           {ref("x"), list({8}), list({1}), list({4})},
           dense({4, 3, extent + 1}));
  graph.outputs = {"y"};
  return graph;
}

}  // namespace weft::testing
