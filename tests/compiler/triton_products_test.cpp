// Products and convolutions of the Triton target: on the matrix units or not,
// and the tiles, shares and precision of those that are.
#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/compiler/triton_sources.hpp"

using namespace weft;
using namespace weft::testing;

TEST_CASE("Convolutions are no target's for any size, and products are") {
  Graph windows;
  add_input(windows, "x", dense({8, 4, 20}));
  add_input(windows, "w", dense({8, 4, 3}));
  add_convolution(windows, "y", "x", "w", {{1}, {0}}, dense({8, 8, 18}));
  windows.outputs = {"y"};
  const Graph factors = product(512, 512, 512);
  CutOptions cut;
  cut.no_extern = true;
  CHECK(triton_can_lower(windows, windows.nodes.back(), cut));
  cut.for_sizes = true;
  CHECK_FALSE(triton_can_lower(windows, windows.nodes.back(), cut));
  CHECK(triton_can_lower(factors, factors.nodes.back(), cut));
  const Graph pools = pooled(200);
  CHECK(triton_can_lower(pools, pools.nodes.back(), cut));
}

TEST_CASE("A product whose rows grow has tiles of their order, and no shares") {
  const auto grown = [](std::int64_t rows) {
    Graph graph = product(rows, 4096, 512);
    graph.symbolic_shapes = {{rows},
                             {{"/nodes/0/values/0/shape/0", {1}},
                              {"/nodes/2/values/0/shape/0", {1}}}};
    return first(graph);
  };
  CHECK(has(first(product(32, 4096, 512)), "share"));
  const std::string few = grown(32), many = grown(4000);
  for (const std::string& text : {few, many}) {
    CHECK(has(text, "tl.dot("));
    CHECK_FALSE(has(text, "share"));
    CHECK(has(text, "nm = (n < batch)"));
  }
  CHECK(has(few, "kernel0[((8 * ((batch + 31) // 32)),)]"));
  CHECK(has(many, "kernel0[((8 * ((batch + 63) // 64)),)]"));
}

TEST_CASE("A product's second factor lies along the sum, if one of them does") {
  const std::string second = first(product(4000, 300, 100));
  CHECK(has(second, "(m < 100)"));
  CHECK(has(second, "(n < 4000)"));
  Graph both = product(4000, 300, 100);
  both.nodes[1].values[0]->stride = {1, 300};
  CHECK(has(first(both), "(m < 4000)"));
  Graph thin = product(4000, 300, 12);  // rows are sixteen at least
  CHECK(has(first(thin), "(m < 4000)"));
}

TEST_CASE("A product that fits its size differs from the variant's tile") {
  const auto all = texts(product(900, 1600, 150), 2, {.sms = 132});
  CHECK_FALSE(has(all[0], "tl.zeros((128, 128), tl.float32)"));
  CHECK(has(all[1], "tl.zeros((128, 128), tl.float32)"));
}

TEST_CASE("A strided transposed convolution is one product of turned tiles") {
  Graph graph;
  add_input(graph, "x", dense({8, 16, 32, 30}));
  add_input(graph, "w", dense({16, 32, 3, 3}));
  add_convolution(graph, "y", "x", "w", {{2, 2}, {1, 1}, true},
                  dense({8, 32, 63, 59}));
  graph.outputs = {"y"};
  graph.nodes.back().tf32 = true;  // else its factors may be split before
  const std::string text = first(graph);
  // The weights are laid out before, rounded; windows are where they are read.
  CHECK(count(text, "@triton.jit") == 3);
  CHECK(count(text, " = _high_half(") == 1);
  CHECK(has(text, " + r, _high_half("));
  CHECK(count(text, "tl.dot") == 1);
  CHECK(count(text, "tl.permute") == 1);
  CHECK(has(text, "m % 32 < 30"));   // lanes that Triton sees side by side
  CHECK(has(text, "num_stages=1"));  // windows are gathered
  CHECK(has(text, "if tl.max("));    // infinities, once more
  // The device is not to wait for memory that its first kernel does not need.
  CHECK(text.find("kernel0[(") < text.find("out0 = torch.empty_strided("));
}

TEST_CASE("Steps are under way together as far as what they read has room") {
  // 16 KiB for each tile of 128 by 32, of 227 KiB.
  Graph graph;
  std::vector<std::string> names;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    add_input(graph, name, dense({4096, 4096}));
    names.push_back(name);
  }
  add_input(graph, "y", dense({4096, 4096}));
  std::string sum = names[0];
  for (std::size_t i = 1; i < names.size(); ++i) {
    const std::string name = "s" + std::to_string(i);
    add_call(graph, name, "aten.add.Tensor", {ref(sum), ref(names[i])},
             dense({4096, 4096}));
    sum = name;
  }
  add_call(graph, "z", "aten.mm.default", {ref(sum), ref("y")},
           dense({4096, 4096}));
  graph.outputs = {"z"};
  for (const std::string& text : texts(graph, 1)) {
    CHECK(has(text, "tl.dot"));
    CHECK(has(text, "num_stages=1"));
    CHECK_FALSE(has(text, "num_stages=3"));
  }
}

TEST_CASE("A padded convolution of one channel stays a product of matrices") {
  Graph graph;
  add_input(graph, "x", dense({8, 1, 32, 32}));
  add_input(graph, "w", dense({64, 1, 5, 5}));
  add_convolution(graph, "y", "x", "w", {{1, 1}, {2, 2}},
                  dense({8, 64, 32, 32}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "tl.dot"));
}

TEST_CASE("What is made of a strided transposed convolution reads it in rows") {
  Graph graph;
  add_input(graph, "x", dense({8, 16, 32, 32}));
  add_input(graph, "w", dense({16, 32, 3, 3}));
  add_convolution(graph, "c", "x", "w", {{2, 2}, {1, 1}, true, 1, {1, 1}},
                  dense({8, 32, 64, 64}));
  graph.nodes.back().tf32 = true;
  add_call(graph, "y", "aten.sum.dim_IntList",
           {ref("c"), list({2, 3}), truth(false)}, dense({8, 32}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "tl.permute"));
}

TEST_CASE("A transposed convolution of a padded image is one of matrices") {
  Graph graph;
  add_input(graph, "x", dense({8, 16, 64}));
  add_input(graph, "w", dense({16, 32, 4}));
  add_call(graph, "p", "aten.constant_pad_nd.default",
           {ref("x"), list({1, 2}), number(0)}, dense({8, 16, 67}));
  add_convolution(graph, "y", "p", "w", {{2}, {1}, true}, dense({8, 32, 134}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "tl.dot"));
}

TEST_CASE("Products go to the matrix units unless they are too thin") {
  CHECK(has(first(product(64, 64, 64)), "tl.dot("));
  for (const auto& [rows, k, columns] :
       {std::tuple{64, 4, 64}, {64, 64, 4}, {8, 64, 8}, {1, 64, 64}}) {
    CAPTURE(rows);
    CAPTURE(k);
    CAPTURE(columns);
    const std::string text = first(product(rows, k, columns));
    CHECK_FALSE(has(text, "tl.dot("));
    CHECK(has(text, "tl.load(in0"));
  }
}

TEST_CASE("A product's sum of one element is that product") {
  CHECK(has(first(product(5, 1, 9)), "tl.load(in0"));
}

TEST_CASE("A long product with few tiles shares its sums among programs") {
  GpuFacts facts;
  facts.sms = 100;
  CHECK(has(first(product(64, 8192, 64), facts), "share"));
  facts.sms = 1;
  CHECK_FALSE(has(first(product(64, 8192, 64), facts), "share"));
}

TEST_CASE("Products keep float32's bits, unless they are TF32 in the graph") {
  const std::string exact = first(product(48, 48, 48));
  CHECK(has(exact, "\"tf32x3\""));
  Graph graph;
  add_input(graph, "x", dense({4, 16, 20}));
  add_input(graph, "w", dense({32, 16, 3}));
  add_convolution(graph, "y", "x", "w", {{1}, {1}}, dense({4, 32, 20}));
  graph.outputs = {"y"};
  CHECK_FALSE(has(first(graph), "\"tf32\""));
  graph.nodes[2].tf32 = true;
  CHECK(has(first(graph), "input_precision=\"tf32\""));
  Graph asked = product(48, 48, 48);
  for (Node& node : asked.nodes) node.tf32 = node.kind == NodeKind::call;
  CHECK_FALSE(has(first(asked), "tf32x3"));
  CHECK(count(first(asked), " = _high_half(tl.broadcast_to(") == 2);
}

TEST_CASE("Products of halves are the library's, unless it is kept out") {
  const Graph graph = of_halves(product(64, 64, 64));
  CHECK_FALSE(is_ours(graph));
  CHECK(triton_can_lower(graph, graph.nodes.back(), {.no_extern = true}));
  CHECK(is_ours(of_halves(one_call("aten.relu.default", dense({4, 6})))));
}

TEST_CASE("The matrix units take halves as they are") {
  GpuFacts gpu;
  gpu.interpreted = false;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::string text = first(of_halves(product(64, 64, 64), dtype), gpu);
    CHECK(has(text, "tl.dot("));
    CHECK_FALSE(has(text, "tf32"));
    CHECK_FALSE(has(text, ".to(tl.float32)"));
  }
}

TEST_CASE("The interpreter multiplies no bfloat16") {
  GpuFacts none;
  none.interpreted = true;
  CHECK(has(first(of_halves(product(64, 64, 64), DType::bf16), none),
            ".to(tl.float32)"));
  CHECK_FALSE(
      has(first(of_halves(product(64, 64, 64)), none), ".to(tl.float32)"));
}
