#include <doctest/doctest.h>

#include "compiler/cuda/generate.hpp"
#include "compiler/cuda/windows.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

// What an H200 is.
const GpuFacts h200 = {
    .sms = 132, .l2_bytes = 60 << 20, .shared_bytes = 227 << 10};

std::string first(Graph graph) {
  const auto sources =
      generate_cuda(subgraph_of(std::move(graph)), h200, {.variants_max = 1});
  REQUIRE(sources.has_value());
  return sources->front().text;
}

/// 3 by 3, of 64 images in 64 channels.
Graph depthwise(std::int64_t height, std::int64_t width) {
  Graph graph;
  add_input(graph, "x", dense({64, 64, height, width}));
  add_input(graph, "w", dense({64, 1, 3, 3}));
  add_convolution(graph, "y", "x", "w", {{1, 1}, {0, 0}, false, 64},
                  dense({64, 64, height - 2, width - 2}));
  graph.outputs = {"y"};
  return graph;
}

Graph pooled(std::int64_t width, std::int64_t window, std::int64_t step) {
  Graph graph;
  add_input(graph, "x", dense({64, 64, 512, width}));
  add_call(
      graph, "y", "aten.avg_pool2d.default",
      {ref("x"), list({window, window}), list({step, step})},
      dense({64, 64, (512 - window) / step + 1, (width - window) / step + 1}));
  graph.outputs = {"y"};
  return graph;
}

}  // namespace

TEST_CASE("windows below each other read each row once, in vectors") {
  const std::string text = first(depthwise(512, 512));
  CHECK(text.contains("float a2[8][4];"));
  CHECK(text.contains("row < 10;"));
  // The row's numbers, by whatever name.
  const std::size_t at = text.find("[8];\n", text.find("float q"));
  REQUIRE(at != std::string::npos);
  const std::size_t name = text.rfind(' ', at) + 1;
  CHECK(text.contains(text.substr(name, at - name) + "[l + k]"));
}

TEST_CASE("of rows that windows share alike, a part is folded once") {
  CHECK(first(pooled(512, 4, 1)).contains("float across"));
  CHECK_FALSE(first(depthwise(512, 512)).contains("float across"));
}

TEST_CASE("windows that share no rows are taken one below another") {
  const std::string text = first(pooled(512, 2, 2));
  CHECK(text.contains("read_row("));
  CHECK(text.contains("float a1[1][4];"));
  CHECK_FALSE(text.contains("across"));
}

TEST_CASE("what is folded down whole columns is no window") {
  Graph graph;
  add_input(graph, "x", dense({256, 1024, 256}));
  add_call(graph, "y", "aten.sum.dim_IntList", {ref("x"), list({1})},
           dense({256, 256}));
  graph.outputs = {"y"};
  CHECK_FALSE(first(std::move(graph)).contains("read_row("));
}

TEST_CASE("rows that begin anywhere are not read in vectors") {
  CHECK_FALSE(first(depthwise(512, 511)).contains("read_row("));
}

TEST_CASE("results whose rows begin anywhere are written by neighbours") {
  CHECK(first(depthwise(512, 512)).contains("write_row("));
  CHECK(first(pooled(512, 2, 2)).contains("store_vector("));
}

TEST_CASE("a window that is not there reads nothing but rows") {
  const auto times_another = [](std::int64_t window) {
    Graph graph = pooled(512, window, 1);
    const std::int64_t made = 512 - window + 1;
    const TensorType type = dense({64, 64, made, made});
    add_input(graph, "z", type);
    add_call(graph, "out", "aten.mul.Tensor", {ref("y"), ref("z")}, type);
    graph.outputs = {"out"};
    return first(std::move(graph));
  };
  CHECK_FALSE(times_another(4).contains("read_row("));  // 509 side by side
  const std::string text = times_another(5);  // 508, and as many below
  CHECK(text.contains("read_row("));
  CHECK(text.contains("[4][4];"));
}

TEST_CASE("few windows are not taken together") {
  Graph graph;
  add_input(graph, "x", dense({1, 8, 64, 64}));
  add_call(graph, "y", "aten.avg_pool2d.default",
           {ref("x"), list({3, 3}), list({1, 1})}, dense({1, 8, 62, 62}));
  graph.outputs = {"y"};
  CHECK_FALSE(first(graph).contains("][2]"));
  CHECK_FALSE(first(std::move(graph)).contains("for (int row"));
}
