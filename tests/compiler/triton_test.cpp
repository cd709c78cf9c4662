#include <doctest/doctest.h>

#include <set>

#include "compiler/triton/generate.hpp"
#include "compiler/triton/scalar.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

Graph product(std::int64_t rows, std::int64_t k, std::int64_t columns) {
  Graph graph;
  add_input(graph, "x", dense({rows, k}));
  add_input(graph, "y", dense({k, columns}));
  add_call(graph, "z", "aten.mm.default", {ref("x"), ref("y")},
           dense({rows, columns}));
  graph.outputs = {"z"};
  return graph;
}

Graph of_halves(Graph graph, DType dtype = DType::f16) {
  for (Node& node : graph.nodes) node.values[0]->dtype = dtype;
  return graph;
}

bool is_ours(const Graph& graph) {
  return triton_can_lower(graph, graph.nodes.back(), {});
}

std::vector<std::string> texts(Graph graph, int variants_max = 16,
                               GpuFacts facts = {}) {
  const auto sources = generate_triton(subgraph_of(std::move(graph)), facts,
                                       {.variants_max = variants_max});
  REQUIRE(sources.has_value());
  std::vector<std::string> found;
  for (const KernelSource& source : *sources) found.push_back(source.text);
  return found;
}

std::string first(Graph graph, GpuFacts facts = {}) {
  return texts(std::move(graph), 1, facts).front();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Mean of windows of eight, four over the border, along rows of so many.
Graph pooled(std::int64_t extent) {
  Graph graph;
  add_input(graph, "x", dense({4, 3, extent}));
  add_call(graph, "y", "aten.avg_pool1d.default",
           {ref("x"), list({8}), list({1}), list({4})},
           dense({4, 3, extent + 1}));
  graph.outputs = {"y"};
  return graph;
}

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

TEST_CASE("Convolutions are no target's for any size, and products are") {
  Graph windows;
  add_input(windows, "x", dense({8, 4, 20}));
  add_input(windows, "w", dense({8, 4, 3}));
  add_call(windows, "y", "aten.convolution.default",
           {ref("x"),
            ref("w"),
            {},
            list({1}),
            list({0}),
            list({1}),
            truth(false),
            list({0}),
            integer(1)},
           dense({8, 8, 18}));
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

TEST_CASE("A strided transposed convolution is one product of turned tiles") {
  Graph graph;
  add_input(graph, "x", dense({8, 16, 32, 30}));
  add_input(graph, "w", dense({16, 32, 3, 3}));
  add_call(graph, "y", "aten.convolution.default",
           {ref("x"),
            ref("w"),
            {},
            list({2, 2}),
            list({1, 1}),
            list({1, 1}),
            truth(true),
            list({0, 0}),
            integer(1)},
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
  add_call(graph, "y", "aten.convolution.default",
           {ref("x"),
            ref("w"),
            {},
            list({1, 1}),
            list({2, 2}),
            list({1, 1}),
            truth(false),
            list({0, 0}),
            integer(1)},
           dense({8, 64, 32, 32}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "tl.dot"));
}

TEST_CASE("What is made of a strided transposed convolution reads it in rows") {
  Graph graph;
  add_input(graph, "x", dense({8, 16, 32, 32}));
  add_input(graph, "w", dense({16, 32, 3, 3}));
  add_call(graph, "c", "aten.convolution.default",
           {ref("x"),
            ref("w"),
            {},
            list({2, 2}),
            list({1, 1}),
            list({1, 1}),
            truth(true),
            list({1, 1}),
            integer(1)},
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
  add_call(graph, "y", "aten.convolution.default",
           {ref("p"),
            ref("w"),
            {},
            list({2}),
            list({1}),
            list({1}),
            truth(true),
            list({0}),
            integer(1)},
           dense({8, 32, 134}));
  graph.outputs = {"y"};
  CHECK(has(first(graph), "tl.dot"));
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
  add_call(graph, "y", "aten.convolution.default",
           {ref("x"), ref("w"), none(), list({1}), list({1}), list({1}),
            truth(false), list({0}), integer(1)},
           dense({4, 32, 20}));
  graph.outputs = {"y"};
  CHECK_FALSE(has(first(graph), "\"tf32\""));
  graph.nodes[2].tf32 = true;
  CHECK(has(first(graph), "input_precision=\"tf32\""));
  Graph asked = product(48, 48, 48);
  for (Node& node : asked.nodes) node.tf32 = node.kind == NodeKind::call;
  CHECK_FALSE(has(first(asked), "tf32x3"));
  CHECK(count(first(asked), " = _high_half(tl.broadcast_to(") == 2);
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
    add_call(
        graph, "z", "aten.convolution.default",
        {ref("y" + std::to_string(calls)), ref("w"), none(), list({1, 1}),
         list({3, 3}), list({1, 1}), truth(false), list({0, 0}), integer(32)},
        image);
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
