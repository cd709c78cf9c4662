// Graphs written in a few lines, for tests.
#pragma once

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft::testing {

inline TensorType dense(std::vector<std::int64_t> shape) {
  return row_major(DType::f32, std::move(shape));
}

inline Arg ref(std::string name) { return {NodeRef{std::move(name)}}; }
inline Arg integer(std::int64_t value) { return {value}; }
inline Arg number(double value) { return {value}; }
inline Arg truth(bool value) { return {value}; }
inline Arg none() { return {}; }
inline Arg list(const std::vector<std::int64_t>& values) {
  Arg::List entries;
  for (const std::int64_t value : values) entries.push_back({value});
  return {std::move(entries)};
}

inline void add_input(Graph& graph, std::string name, TensorType type) {
  Node node;
  node.name = std::move(name);
  node.kind = NodeKind::input;
  node.target = node.name;
  node.values = {std::move(type)};
  graph.nodes.push_back(std::move(node));
}

inline Node& add_call(Graph& graph, std::string name, std::string target,
                      std::vector<Arg> args, TensorType type) {
  Node node;
  node.name = std::move(name);
  node.target = std::move(target);
  node.args = std::move(args);
  node.values = {std::move(type)};
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back();
}

/// How a convolution moves its window, in each dimension.
struct Windows {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  bool transposed = false;
  std::int64_t groups = 1;
  std::vector<std::int64_t> output_padding{};  ///< Empty: zeros.
};

/// A call of the convolution of two nodes, without bias and dilation.
inline Node& add_convolution(Graph& graph, std::string name,
                             const std::string& image,
                             const std::string& weight, const Windows& windows,
                             TensorType type) {
  const std::vector<std::int64_t> zeros(windows.stride.size(), 0);
  const std::vector<std::int64_t> ones(windows.stride.size(), 1);
  return add_call(
      graph, std::move(name), "aten.convolution.default",
      {ref(image), ref(weight), none(), list(windows.stride),
       list(windows.padding), list(ones), truth(windows.transposed),
       list(windows.output_padding.empty() ? zeros : windows.output_padding),
       integer(windows.groups)},
      std::move(type));
}

/// One call of one input, both of that type.
inline Graph one_call(const std::string& target, const TensorType& type) {
  Graph graph;
  add_input(graph, "x", type);
  add_call(graph, "y", target, {ref("x")}, type);
  graph.outputs = {"y"};
  return graph;
}

/// Of each row.
inline Graph softmax(std::int64_t rows, std::int64_t width) {
  Graph graph;
  const TensorType type = dense({rows, width});
  add_input(graph, "x", type);
  add_call(graph, "y", "aten._softmax.default",
           {ref("x"), integer(1), truth(false)}, type);
  graph.outputs = {"y"};
  return graph;
}

/// Of each row.
inline Graph variance(std::int64_t rows, std::int64_t width) {
  Graph graph;
  add_input(graph, "x", dense({rows, width}));
  add_call(graph, "y", "aten.var.correction", {ref("x"), list({1})},
           dense({rows}));
  graph.outputs = {"y"};
  return graph;
}

/// Whether generated text compares x - x with something: of a product the
/// compiler makes what rounding left of it, and not zero.
inline bool takes_from_itself(const std::string& text) {
  static const std::regex by_itself(R"((\b[\w.]+) - \1 *[!=]=)");
  return std::regex_search(text, by_itself);
}

/// As partition() would give it.
inline Subgraph subgraph_of(Graph graph) {
  Subgraph subgraph;
  subgraph.id = "sg_0123456789ab";
  subgraph.type = "test";
  subgraph.graph = std::move(graph);
  return subgraph;
}

}  // namespace weft::testing
