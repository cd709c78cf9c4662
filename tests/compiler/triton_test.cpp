// Sources of the Triton target, except for products and convolutions
// (triton_products_test.cpp).
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "compiler/triton/scalar.hpp"
#include "tests/compiler/triton_sources.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

/// The largest in columns of such matrices; and where it is, if that is asked.
Graph largest(TensorType images, bool and_where) {
  Graph graph;
  const TensorType made = dense({images.shape[0], images.shape[2]});
  add_input(graph, "x", images);
  Node& both =
      add_call(graph, "m", "aten.max.dim", {ref("x"), integer(1)}, made);
  both.is_tuple = true;
  both.values = {made, made};
  both.values[1]->dtype = DType::i64;
  add_call(graph, "v", "getitem", {ref("m"), integer(0)}, made);
  graph.outputs = {"v"};
  if (!and_where) return graph;
  TensorType places = made;
  places.dtype = DType::i64;
  add_call(graph, "w", "getitem", {ref("m"), integer(1)}, places);
  graph.outputs = {"v", "w"};
  return graph;
}

}  // namespace

TEST_CASE("A place that nobody reads is not looked for") {
  const TensorType images = dense({64, 200, 300});
  CHECK(has(first(largest(images, true)), "_argmax_of"));
  CHECK_FALSE(has(first(largest(images, false)), "_argmax_of"));
  CHECK(has(first(largest(images, false)), "_max_of"));
}

TEST_CASE(
    "What differs within a tile has 32 bits where numbers take the rest") {
  const std::string text = first(largest(dense({128, 4096, 4095}), false));
  CHECK(has(text, "outer = tl.program_id(0).to(tl.int64)"));
  CHECK(has(text, ".to(tl.int32)\n    p = first + "));
  CHECK_FALSE(has(text, "[None, :].to(tl.int64)"));
  CHECK(has(text, "in0 + outer * 16773120 + (p + (r * 4095))"));
}

TEST_CASE("Of a graph that grows, the source is one for any size") {
  Graph graph = pooled(4096);
  graph.symbolic_shapes = {
      {4},
      {{"/nodes/0/values/0/shape/0", {1}}, {"/nodes/1/values/0/shape/0", {1}}}};
  const std::string text = first(graph);
  CHECK(has(text, "@triton.jit(do_not_specialize=[\"batch\"])"));
  CHECK(has(text, "def kernel_function(in0, batch):"));
  CHECK(has(text, "BATCHES = (4, 1, 13, 72)"));
}

TEST_CASE("Tiles that no window leaves are read without masks") {
  const std::string text = first(pooled(4096));
  const auto inside = text.find("if inside:");
  const auto outside = text.find("else:");
  REQUIRE(inside != std::string::npos);
  REQUIRE(outside > inside);
  CHECK(!has(text.substr(inside, outside - inside), "mask"));
  CHECK(count(text.substr(outside), "mask") == 2);
  CHECK(!has(first(pooled(200)), "inside"));
}

TEST_CASE("What is a number goes into the pointer") {
  CHECK(has(first(pooled(4096)), "in0 + outer * 4096 + (r + (p) - 4)"));
}

TEST_CASE("Equal subgraphs give equal Triton sources") {
  CHECK(texts(softmax(64, 1000)) == texts(softmax(64, 1000)));
  CHECK(texts(product(200, 300, 100)) == texts(product(200, 300, 100)));
}

TEST_CASE("Triton variants differ in more than their names") {
  const auto all = texts(softmax(500, 3000));
  CHECK(all.size() > 1);
  std::set<std::string> bodies;
  for (const std::string& text : all) {
    bodies.insert(text.substr(text.find("import torch")));
  }
  CHECK(bodies.size() == all.size());
}

TEST_CASE("There are no more Triton variants than asked for") {
  CHECK(texts(softmax(500, 3000), 2).size() == 2);
}

TEST_CASE("A Triton source has inputs, kernels and what launches them") {
  const std::string text = first(softmax(500, 3000));
  CHECK(has(text, "test (sg_0123456789ab), variant "));
  CHECK(has(text, "((500, 3000), (3000, 1), torch.float32),"));
  CHECK(has(text, "@triton.jit\ndef kernel0(in0, out0):"));
  CHECK(has(text, "def kernel_function(in0):"));
  CHECK(has(text, "kernel0[("));
  CHECK(has(text, "return out0"));
}

TEST_CASE("A row that fits is read once, a longer one again in each pass") {
  CHECK(count(first(softmax(5000, 1000)), "tl.load(in0") == 1);
  CHECK(count(first(softmax(5000, 100'000)), "tl.load(in0") == 3);
}

TEST_CASE("Few long rows are shared out among programs") {
  CHECK_FALSE(has(first(softmax(5000, 100'000)), "share = "));
  const std::string shared = first(softmax(2, 100'000));
  CHECK(has(shared, "share = "));
  CHECK(count(shared, "@triton.jit\ndef kernel") > 2);
}

TEST_CASE("Terms along one dimension are added before they are spread") {
  const LoopVar row{1, 8};
  const LoopVar column{2, 16};
  const LoopVar block{3, 4};
  const TritonVariables variables = {{1, {"p", Axis::rows, ""}},
                                     {2, {"r", Axis::columns, ""}},
                                     {3, {"b", Axis::none, ""}}};
  const Index index = Index(column) + Index(row) * 16 + Index(block) * 128 +
                      Index(row) * 512 + 3;
  CHECK(triton_index(index, variables) == "b * 128 + (p * 528) + (r) + 3");
  const Index both = floor_mod(Index(row) + Index(column), 5) + Index(row);
  CHECK(triton_index(both, variables) == "p + (((p + (r)) % 5))");
}

TEST_CASE("Only what depends on a masked variable is masked") {
  const TritonVariables variables = {{1, {"p", Axis::rows, "pm"}},
                                     {2, {"r", Axis::columns, "rm"}},
                                     {3, {"b", Axis::none, ""}}};
  CHECK(triton_mask(variables, {3}).empty());
  CHECK(triton_mask(variables, {2, 3}) == "rm");
  CHECK(triton_mask(variables, {1, 2}) == "pm & rm");
}

TEST_CASE("Positions have 64 bits where 32 are not enough, and only there") {
  const auto wide = [](std::int64_t rows) {
    return has(first(one_call("aten.exp.default", dense({rows, 65'536}))),
               ".to(tl.int64)");
  };
  CHECK_FALSE(wide(32'000));
  CHECK(wide(32'768));
  CHECK(has(first(softmax(40'000, 65'536)), ".to(tl.int64)"));
  CHECK(has(first(product(65'536, 64, 65'536)), ".to(tl.int64)"));
  CHECK_FALSE(has(first(product(512, 64, 512)), ".to(tl.int64)"));
}

TEST_CASE("A function that Triton lacks stays the framework's") {
  for (const char* name : {"tan", "atan", "asin", "sinh", "erfc"}) {
    const std::string target = "aten." + std::string(name) + ".default";
    CAPTURE(target);
    const Graph graph = one_call(target, dense({4, 6}));
    CHECK_FALSE(is_ours(graph));
    const auto sources =
        generate_triton(subgraph_of(graph), {}, {.variants_max = 4});
    REQUIRE_FALSE(sources.has_value());
    CHECK(has(sources.error().message, name));
  }
}

TEST_CASE("A function that is exact in float32 only is not used in float64") {
  TensorType type = dense({4, 6});
  const Graph narrow = one_call("aten.tanh.default", type);
  CHECK(is_ours(narrow));
  type.dtype = DType::f64;
  const Graph wide = one_call("aten.tanh.default", type);
  CHECK_FALSE(is_ours(wide));
  const Graph exp = one_call("aten.exp.default", type);
  CHECK(is_ours(exp));
}

TEST_CASE("x tanh(softplus(x)) is one function") {
  const TensorType type = dense({64, 64});
  const auto text_with = [&](double beta, const std::string& factor) {
    Graph graph;
    add_input(graph, "x", type);
    add_input(graph, "w", type);
    add_call(graph, "s", "aten.softplus.default", {ref("x"), number(beta)},
             type);
    add_call(graph, "t", "aten.tanh.default", {ref("s")}, type);
    add_call(graph, "y", "aten.mul.Tensor", {ref("t"), ref(factor)}, type);
    graph.outputs = {"y"};
    return first(graph);
  };
  CHECK(has(text_with(1, "x"), "= _mish("));
  CHECK_FALSE(has(text_with(1, "x"), "_softplus"));
  CHECK_FALSE(has(text_with(2, "x"), "= _mish("));
  CHECK_FALSE(has(text_with(1, "w"), "= _mish("));
}

TEST_CASE("Between two operators on halves each result is rounded") {
  Graph graph = one_call("aten.exp.default", dense({64, 256}));
  add_call(graph, "z", "aten.relu.default", {ref(graph.outputs[0])},
           dense({64, 256}));
  graph.outputs = {"z"};
  const std::string text = first(of_halves(std::move(graph)));
  CHECK(count(text, ".to(tl.float32)") == 2);
  CHECK(count(text, ".to(tl.float16)") == 2);
}

TEST_CASE("what is finite is asked by its size") {
  for (const std::string& text : texts(variance(64, 1 << 20))) {
    CHECK_FALSE(takes_from_itself(text));
  }
}

TEST_CASE("Triton fuses products into sums only where rounding is free") {
  const Graph graph = one_call("aten.relu.default", dense({64, 1024}));
  CHECK(has(first(graph), "enable_fp_fusion=False"));
  const auto freely =
      generate_triton(subgraph_of(graph), {}, {1, /*free_rounding=*/true});
  REQUIRE(freely.has_value());
  CHECK(!has(freely->front().text, "enable_fp_fusion"));
}

TEST_CASE("a number before a tensor is one element of a tensor") {
  Graph graph;
  add_input(graph, "x", dense({64}));
  add_call(graph, "y", "aten.pow.Scalar", {number(2.5), ref("x")}, dense({64}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "_pow(tl.full((1, 1), 2.5, tl.float32), "));
}

TEST_CASE("what 7 by 7 windows read is made once where that is dear") {
  const auto behind = [](int calls) {
    Graph graph;
    const TensorType image = dense({8, 32, 56, 56});
    add_input(graph, "y0", image);
    add_input(graph, "w", dense({32, 1, 7, 7}));
    for (int i = 0; i < calls; ++i) {
      add_call(graph, "y" + std::to_string(i + 1), "aten.tanh.default",
               {ref("y" + std::to_string(i))}, image);
    }
    add_convolution(graph, "z", "y" + std::to_string(calls), "w",
                    {{1, 1}, {3, 3}, false, 32}, image);
    graph.outputs = {"z"};
    return first(std::move(graph));
  };
  const std::string few = behind(1), many = behind(12);
  CHECK(count(few, "def kernel") == 2);  // and the function that starts it
  REQUIRE(count(many, "def kernel") == 3);
  CHECK(has(few.substr(few.find("for step")), "_tanh("));
  CHECK_FALSE(has(many.substr(many.find("for step")), "_tanh("));
}

TEST_CASE("A variance of halves needs no correction of its mean") {
  const auto sums = [](DType dtype, std::int64_t columns) {
    Graph graph;
    add_input(graph, "x", dense({64, columns}));
    add_call(graph, "v", "aten.var.correction", {ref("x"), list({1})},
             dense({64}));
    graph.outputs = {"v"};
    return count(first(of_halves(graph, dtype)), "= tl.sum(");
  };
  CHECK(sums(DType::f32, 512) == 3);
  CHECK(sums(DType::bf16, 512) == 2);
  CHECK(sums(DType::f16, 8192) == 2);
  // So many equal numbers of 11 bits have no exact sum in float32.
  CHECK(sums(DType::f16, 16384) == 3);
}

TEST_CASE("A row of halves has fewer threads than one of float32") {
  Graph graph;
  add_input(graph, "x", dense({64, 4096}));
  add_call(graph, "y", "aten._softmax.default",
           {ref("x"), integer(1), truth(false)}, dense({64, 4096}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "num_warps=16"));
  CHECK(has(first(of_halves(graph, DType::bf16)), "num_warps=4"));
}

TEST_CASE("A sum joins the kernel whose later sum reads the same rows") {
  const TensorType rows = dense({4096, 512});
  const TensorType column = dense({4096, 1});
  const auto sum = [&](Graph& graph, const char* name, const char* of) {
    add_call(graph, name, "aten.sum.dim_IntList",
             {ref(of), list({1}), truth(true)}, column);
  };
  const auto both = [&](Graph& graph, const char* name, const char* target,
                        const char* a, const char* b) {
    add_call(graph, name, target, {ref(a), ref(b)}, rows);
  };
  Graph graph;
  add_input(graph, "x", rows);
  add_input(graph, "g", rows);
  sum(graph, "a", "x");
  both(graph, "moved", "aten.sub.Tensor", "x", "a");
  both(graph, "c", "aten.mul.Tensor", "moved", "g");
  sum(graph, "d", "c");
  sum(graph, "e", "g");  // reads nothing that the first sum reads
  both(graph, "f", "aten.mul.Tensor", "moved", "d");
  both(graph, "y", "aten.add.Tensor", "f", "e");
  graph.outputs = {"y"};
  CHECK_FALSE(has(first(graph), "def kernel1("));
}
