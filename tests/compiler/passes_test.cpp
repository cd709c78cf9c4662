#include "compiler/passes/passes.hpp"

#include <doctest/doctest.h>

#include "compiler/graph/graph_check.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

using Names = std::vector<std::string>;
const TensorType k4 = dense({4});

Names calls_of(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::call) names.push_back(node.name);
  }
  return names;
}

TEST_CASE("a call that nothing needs goes, with what only it needed") {
  GraphBuilder b;
  b.input("a", k4).call("r", "relu", {"a"}, k4).call("e", "exp", {"r"}, k4);
  b.call("s", "sin", {"a"}, k4).outputs({"s"});
  const Graph graph = eliminate_dead_code(b.graph);
  CHECK(calls_of(graph) == Names{"s"});
  CHECK(graph.find("a") != nullptr);
}

TEST_CASE("the new value of a buffer is needed") {
  GraphBuilder b;
  b.placeholder(NodeKind::buffer, "m", k4).call("r", "relu", {"m"}, k4);
  b.graph.mutations = {{"m", false, "r"}};
  CHECK(calls_of(eliminate_dead_code(b.graph)) == Names{"r"});
}

TEST_CASE("an unused draw stays: the next one depends on it") {
  GraphBuilder b;
  b.input("a", k4).call("d", "rand_like", {"a"}, k4).outputs({"a"});
  CHECK(calls_of(eliminate_dead_code(b.graph)) == Names{"d"});
}

TEST_CASE("equal calls become one, also down the chain") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("r2", "relu", {"a"}, k4);
  b.call("e1", "exp", {"r1"}, k4).call("e2", "exp", {"r2"}, k4);
  b.call("s", "add", {"e1", "e2"}, k4).outputs({"s"});
  const Graph graph = eliminate_common_subexpressions(b.graph);
  CHECK(calls_of(graph) == Names{"r1", "e1", "s"});
  CHECK(graph.find("s")->args[1] == Arg{NodeRef{"e1"}});
}

/// b[l, h], c[s, h], d[l, s] and x[s, p], multiplied and summed over h and s.
GraphBuilder einsum_of_four(const std::string& equation) {
  GraphBuilder b;
  b.input("b", dense({4, 8})).input("c", dense({5, 8}));
  b.input("d", dense({5, 4})).input("x", dense({5, 6}));
  Node node;
  node.name = "e";
  node.target = "aten.einsum.default";
  node.args = {
      {equation},
      {Arg::List{
          {NodeRef{"b"}}, {NodeRef{"c"}}, {NodeRef{"d"}}, {NodeRef{"x"}}}}};
  node.values = {dense({4, 6})};
  b.graph.nodes.push_back(node);
  return b.call("r", "relu", {"e"}, dense({4, 6})).outputs({"r"});
}

TEST_CASE(
    "an einsum of several goes by pairs, the one that leaves least first") {
  const Graph graph = einsum_by_pairs(einsum_of_four("lh,sh,sl,sp->lp").graph);
  CHECK(calls_of(graph) ==
        Names{"e_pair", "e_pair_1_view", "e_pair_1", "e", "r"});
  const Node* first = graph.find("e_pair");
  CHECK(first->args[0] == Arg{std::string("lh,sh->ls")});
  CHECK(first->values[0] == dense({4, 5}));
  // What sums nothing multiplies, as far as needed turned round.
  const Node* second = graph.find("e_pair_1");
  CHECK(second->target == "aten.mul.Tensor");
  CHECK(second->args[0] == Arg{NodeRef{"e_pair"}});
  CHECK(second->args[1] == Arg{NodeRef{"e_pair_1_view"}});
  CHECK(graph.find("e_pair_1_view")->values[0] ==
        TensorType{DType::f32, {4, 5}, {1, 4}});
  CHECK(graph.find("e")->args[0] == Arg{std::string("ls,sp->lp")});
}

TEST_CASE("an einsum that is not plain stays") {
  for (const char* equation :
       {"lh,sh,sl,sp", "lh,sh,...l,sp->lp", "lh,sh,ss,sp->lp", "lh,sh,l,sp->lp",
        "lh,sh,hl,sp->lp"}) {
    const Graph graph = einsum_by_pairs(einsum_of_four(equation).graph);
    CHECK(calls_of(graph) == Names{"e", "r"});
  }
  GraphBuilder b = einsum_of_four("lh,sh,sl,sp->lp");
  b.outputs({"e"});  // it must lie in memory as PyTorch lays it
  CHECK(calls_of(einsum_by_pairs(b.graph)) == Names{"e", "r"});
}

/// out[:, t] = h of as many steps, as it is captured; `order` of the writes.
GraphBuilder written(const std::vector<std::int64_t>& order) {
  const TensorType whole = dense({4, 3}), row = k4;
  GraphBuilder b;
  b.input("a", k4).call("out", "full", {}, whole);
  std::string last = "out";
  for (const std::int64_t t : order) {
    const std::string n = std::to_string(t);
    const Arg dim{std::int64_t{1}}, at{t};
    b.call("h" + n, "add", {"a"}, k4, {at});
    b.call("v" + n, "select.int", {last}, row, {dim, at});
    b.call("c" + n, "copy", {"v" + n, "h" + n}, row);
    b.call("s" + n, "select_scatter", {last, "c" + n}, whole, {dim, at});
    last = "s" + n;
  }
  return b.outputs({last});
}

TEST_CASE("what is written piece by piece is stacked") {
  const Graph graph = join_written_pieces(written({0, 2, 1}).graph);
  CHECK(calls_of(graph) == Names{"h0", "h2", "h1", "s1"});
  const Node* stack = graph.find("s1");
  CHECK(stack->target == "aten.stack.default");
  CHECK(stack->args[0] ==
        Arg{Arg::List{{NodeRef{"h0"}}, {NodeRef{"h1"}}, {NodeRef{"h2"}}}});
  CHECK(stack->args[1] == Arg{std::int64_t{1}});
}

TEST_CASE("a piece that nothing is written to stays what it was") {
  const Graph graph = join_written_pieces(written({0, 1}).graph);
  CHECK(calls_of(graph) == Names{"out", "h0", "s0", "h1", "s1"});
}

TEST_CASE("a piece written twice is what was written last") {
  GraphBuilder b = written({0, 1, 2});
  b.call("again", "exp", {"a"}, k4);
  b.call("s", "select_scatter", {"s2", "again"}, dense({4, 3}),
         {{std::int64_t{-2}}, {std::int64_t{0}}});
  CHECK(calls_of(join_written_pieces(b.graph)) ==
        Names{"h0", "h1", "h2", "s2"});  // s2 is the output
  b.graph.outputs = {"s"};
  const Graph graph = join_written_pieces(b.graph);
  CHECK(graph.find("s")->target == "aten.select_scatter.default");
}

TEST_CASE("a piece that is read back is what was written there") {
  GraphBuilder b = written({0, 1, 2});
  const Arg dim{std::int64_t{1}};
  b.call("r", "select.int", {"s2"}, k4, {dim, {std::int64_t{-3}}});
  b.call("e", "exp", {"r"}, k4).outputs({"s2", "e"});
  const Graph graph = join_written_pieces(b.graph);
  CHECK(graph.find("e")->args[0] == Arg{NodeRef{"h0"}});
  CHECK(graph.find("s2")->target == "aten.stack.default");
}

TEST_CASE("a chain that is read on its way stays") {
  GraphBuilder b = written({0, 1, 2});
  b.call("e", "exp", {"s1"}, dense({4, 3})).outputs({"s2", "e"});
  const Graph graph = join_written_pieces(b.graph);
  CHECK(graph.find("s2")->target == "aten.select_scatter.default");
}

TEST_CASE("a copy into another layout stays, and so does a cast") {
  GraphBuilder b;
  const TensorType across{DType::f32, {3, 4}, {1, 3}};
  b.input("a", across).call("out", "full", {}, dense({3, 4}));
  b.call("c", "copy", {"out", "a"}, dense({3, 4}));
  b.call("v", "view", {"c"}, dense({12}), {{Arg::List{{std::int64_t{12}}}}});
  CHECK(calls_of(join_written_pieces(b.outputs({"v"}).graph)) ==
        Names{"out", "c", "v"});
  GraphBuilder wide;
  const TensorType k64 = dense({4}, DType::f64);
  wide.input("a", k64).call("out", "full", {}, dense({1, 4}));
  wide.call("s", "select_scatter", {"out", "a"}, dense({1, 4}),
            {{std::int64_t{0}}, {std::int64_t{0}}});
  CHECK(join_written_pieces(wide.outputs({"s"}).graph).find("s")->target ==
        "aten.select_scatter.default");
}

TEST_CASE("where calls write in place nothing is joined") {
  GraphBuilder b = written({0, 1, 2});
  b.call("w", "add_.Tensor", {"h0"}, k4).outputs({"s2", "w"});
  CHECK(join_written_pieces(b.graph) == b.graph);
}

TEST_CASE("a copy that leaves the model stays a tensor of its own") {
  GraphBuilder b;
  b.input("a", k4).call("out", "full", {}, k4);
  b.call("c", "copy", {"out", "a"}, k4).outputs({"c"});
  CHECK(calls_of(join_written_pieces(b.graph)) == Names{"out", "c"});
}

TEST_CASE("an integer and a float argument are not equal") {
  GraphBuilder b;
  b.input("a", k4);
  b.call("s1", "mul", {"a"}, k4, {{std::int64_t{2}}});
  b.call("s2", "mul", {"a"}, k4, {{2.0}});
  b.call("s", "add", {"s1", "s2"}, k4).outputs({"s"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("two draws are never one") {
  GraphBuilder b;
  b.input("a", k4).call("d1", "rand_like", {"a"}, k4);
  b.call("d2", "rand_like", {"a"}, k4).call("s", "add", {"d1", "d2"}, k4);
  b.outputs({"s"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("two results that leave the model stay two tensors") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("r2", "relu", {"a"}, k4);
  b.call("v", "view", {"r2"}, dense({2, 2})).outputs({"r1", "v"});
  CHECK(calls_of(eliminate_common_subexpressions(b.graph)).size() == 3);
}

TEST_CASE("a graph that writes in place is left alone") {
  GraphBuilder b;
  b.input("a", k4).call("r1", "relu", {"a"}, k4).call("w", "add_", {"a"}, k4);
  b.call("r2", "relu", {"a"}, k4).call("s", "add", {"r1", "r2"}, k4);
  b.outputs({"s"});
  CHECK(eliminate_common_subexpressions(b.graph) == b.graph);
}

Graph convolution_then(const std::string& op, bool biased) {
  GraphBuilder b;
  const auto image = dense({2, 3, 4, 4});
  b.input("x", dense({2, 3, 6, 6}));
  b.placeholder(NodeKind::parameter, "w", dense({3, 3, 3, 3}));
  b.placeholder(NodeKind::parameter, "b", dense({3}));
  b.call("y", "convolution", {"x", "w"}, image,
         {biased ? Arg{NodeRef{"b"}} : Arg{}});
  b.call("z", op, {"y"}, image).outputs({"z"});
  return b.graph;
}

/// Everything but convolutions and relu.
bool few(const Graph&, const Node& call) {
  return call.target != "aten.convolution.default" &&
         call.target != "aten.relu.default";
}

TEST_CASE("the bias of the library's convolution joins what follows it") {
  const Graph graph = separate_bias(convolution_then("exp", true), few);
  CHECK(calls_of(graph) == Names{"y_without_bias", "y_bias", "y", "z"});
  CHECK(graph.find("y_without_bias")->args[2] == Arg{});
  CHECK(graph.find("y_bias")->values[0]->shape ==
        std::vector<std::int64_t>{3, 1, 1});
  CHECK(graph.find("y")->target == "aten.add.Tensor");
  CHECK(graph.find("y")->values == graph.find("z")->values);
  CHECK(check_graph(graph));
}

TEST_CASE("a bias that nothing of ours could add stays where it is") {
  for (const Graph& graph :
       {convolution_then("relu", true), convolution_then("exp", false)}) {
    CHECK(separate_bias(graph, few) == graph);
  }
  const auto all = [](const Graph&, const Node&) { return true; };
  const Graph ours = convolution_then("exp", true);
  CHECK(separate_bias(ours, all) == ours);
}

/// relu(x) → convolution → what `then` says, in a size that pays.
Graph convolution_in_layout(const std::string& then, const TensorType& result,
                            std::vector<Arg> more = {}) {
  GraphBuilder b;
  const auto image = dense({16, 8, 32, 32});
  b.input("x", image).call("r", "exp", {"x"}, image);
  b.placeholder(NodeKind::parameter, "w", dense({8, 8, 3, 3}));
  const Arg pair = {Arg::List{{std::int64_t{1}}, {std::int64_t{1}}}};
  b.call("y", "convolution", {"r", "w"}, image,
         {{}, pair, pair, pair, {false}, pair, {std::int64_t{1}}});
  b.graph.nodes.back().tf32 = true;
  b.call("z", then, {"y"}, result, std::move(more)).outputs({"z"});
  return b.graph;
}

TEST_CASE("the library's convolutions work channels last") {
  const auto image = dense({16, 8, 32, 32});
  const Relaid relaid =
      convolve_channels_last(convolution_in_layout("exp", image), few);
  CHECK(relaid.no_fuse.empty());
  REQUIRE(check_graph(relaid.graph));
  const Graph graph = eliminate_dead_code(relaid.graph);
  CHECK(calls_of(graph) == Names{"r", "r_channels_last", "w_channels_last",
                                 "y_channels_last", "y", "z"});
  const std::vector<std::int64_t> last{8192, 1, 256, 8};
  for (const char* name : {"r_channels_last", "y_channels_last"}) {
    CHECK(graph.find(name)->values[0]->stride == last);
  }
  CHECK(*graph.find("y")->values[0] == image);
}

TEST_CASE("between two of the library's convolutions nothing is copied back") {
  Graph graph = convolution_in_layout("exp", dense({16, 8, 32, 32}));
  Node second = *graph.find("y");
  second.name = "z";
  second.args[0] = {NodeRef{"y"}};
  graph.nodes.back() = second;
  const Relaid relaid = convolve_channels_last(graph, few);
  const Graph result = eliminate_dead_code(relaid.graph);
  CHECK(result.find("y") == nullptr);
  CHECK(result.find("z_channels_last")->args[0] ==
        Arg{NodeRef{"y_channels_last"}});
}

TEST_CASE("what reads scattered rows again has a copy of its own before it") {
  const auto no_fuse_set = [](const std::string& then, const TensorType& result,
                              std::vector<Arg> more = {}) {
    std::set<std::string> names;
    const Relaid relaid = convolve_channels_last(
        convolution_in_layout(then, result, std::move(more)), few);
    for (const auto& [name, reason] : relaid.no_fuse) names.insert(name);
    return names;
  };
  const auto image = dense({16, 8, 32, 32});
  const Arg places = {Arg::List{{std::int64_t{2}}, {std::int64_t{3}}}};
  const Arg rows = {Arg::List{{std::int64_t{32}}}};
  const Arg images = {
      Arg::List{{std::int64_t{8}}, {std::int64_t{32}}, {std::int64_t{32}}}};
  CHECK(no_fuse_set("_softmax", image, {{std::int64_t{1}}}).empty());
  CHECK(no_fuse_set("_softmax", image, {{std::int64_t{3}}}) ==
        std::set<std::string>{"y"});
  CHECK(no_fuse_set("native_group_norm", image).empty());
  CHECK(no_fuse_set("native_layer_norm", image, {rows}).empty());
  CHECK(no_fuse_set("native_layer_norm", image, {images}) ==
        std::set<std::string>{"y"});
  CHECK(no_fuse_set("max_pool2d", dense({16, 8, 16, 16})).empty());
  CHECK(no_fuse_set("mean", dense({16, 8}), {places}).empty());
}

TEST_CASE("only GPUs work channels last, and not where products are exact") {
  const Graph graph = convolution_in_layout("exp", dense({16, 8, 32, 32}));
  const auto turns = [&](const char* target, const CutOptions& cut) {
    return partition(graph, *find_target(target), cut)
               .model.find("y_channels_last") != nullptr;
  };
  CHECK(turns("triton", {}));
  CHECK(turns("gpu", {}));
  CHECK_FALSE(turns("cpu", {}));
  CHECK_FALSE(turns("triton", {.precision = "strict"}));
  Graph other = graph;
  for (Node& node : other.nodes) node.tf32 = false;
  CHECK(convolve_channels_last(other, few).graph == other);
  CHECK(partition(other, *find_target("gpu"), {.precision = "tf32"})
            .model.find("y_channels_last") != nullptr);
  CHECK(partition(other, *find_target("gpu")).model.find("y_channels_last") ==
        nullptr);
}

Graph single_convolution(bool transposed) {
  Graph graph = convolution_in_layout("exp", dense({16, 8, 32, 32}));
  graph.nodes.erase(graph.nodes.begin() + 1);  // r
  graph.nodes.pop_back();                      // z
  graph.nodes.back().args[0] = {NodeRef{"x"}};
  graph.nodes.back().args[6] = {transposed};
  graph.outputs = {"y"};
  return graph;
}

TEST_CASE("alone, with both copies to pay for, only transposed ones do") {
  const Graph ordinary = single_convolution(false);
  CHECK(convolve_channels_last(ordinary, few).graph == ordinary);
  const Graph graph =
      convolve_channels_last(single_convolution(true), few).graph;
  CHECK(calls_of(graph) ==
        Names{"x_channels_last", "w_channels_last", "y_channels_last", "y"});
}

/// Of a volume, with windows of 2 × 3 × 4 in steps of `step`.
Graph transposed_volume(std::int64_t step, std::int64_t padding) {
  GraphBuilder b;
  const auto three = [](std::int64_t i, std::int64_t j, std::int64_t k) {
    return Arg{Arg::List{{i}, {j}, {k}}};
  };
  b.input("x", dense({2, 5, 8, 8, 8}));
  b.placeholder(NodeKind::parameter, "w", dense({5, 6, 2, 3, 4}));
  b.call("y", "convolution", {"x", "w"}, dense({2, 6, 9, 10, 17}),
         {{},
          three(step, step, step),
          three(0, 0, padding),
          three(1, 1, 3),
          {true},
          three(0, 0, 0),
          {std::int64_t{1}}});
  b.graph.nodes.back().tf32 = true;
  b.outputs({"y"});
  return b.graph;
}

TEST_CASE("a transposed convolution of volumes is one with its window turned") {
  const Graph graph =
      transposed_to_forward_convolution(transposed_volume(1, 4));
  REQUIRE(check_graph(graph));
  CHECK(calls_of(graph) == Names{"y_turned", "y_across", "y_window", "y"});
  const Node& y = *graph.find("y");
  CHECK(graph.find("y_window")->values[0] == dense({6, 5, 2, 3, 4}));
  CHECK(y.args[1] == Arg{NodeRef{"y_window"}});
  CHECK(
      y.args[4] ==
      Arg{Arg::List{{std::int64_t{1}}, {std::int64_t{2}}, {std::int64_t{5}}}});
  CHECK(y.args[6] == Arg{false});
}

TEST_CASE("one that steps further, or whose window would be cut, is left") {
  for (const Graph& graph : {transposed_volume(2, 4), transposed_volume(1, 10),
                             single_convolution(true)}) {
    CHECK(transposed_to_forward_convolution(graph) == graph);
  }
}

TEST_CASE("only GPUs turn windows, and not where products are exact or ours") {
  const Graph graph = transposed_volume(1, 4);
  const auto turns = [&](const char* target, const CutOptions& cut) {
    return partition(graph, *find_target(target), cut).model.find("y_window") !=
           nullptr;
  };
  CHECK(turns("gpu", {}));
  CHECK_FALSE(turns("cpu", {}));
  CHECK_FALSE(turns("triton", {.no_extern = true}));
  CHECK_FALSE(turns("triton", {.precision = "strict"}));
}

TEST_CASE("small, pointwise and grouped convolutions stay as they are") {
  const Graph large = convolution_in_layout("exp", dense({16, 8, 32, 32}));
  const auto stays = [](Graph graph) {
    return convolve_channels_last(graph, few).graph == graph;
  };
  CHECK(!stays(large));
  Graph grouped = large;
  grouped.nodes[3].args[8] = {std::int64_t{2}};
  CHECK(stays(grouped));
  Graph pointwise = large;
  pointwise.nodes[2].values = {dense({8, 8, 1, 1})};
  CHECK(stays(pointwise));
  Graph otherwise = large;  // its image came in another layout
  otherwise.nodes[3].values[0]->stride = {8192, 1, 256, 8};
  CHECK(stays(otherwise));
  Graph small = large;
  small.nodes[3].values = {dense({1, 8, 32, 32})};
  CHECK(stays(small));
  const auto all = [](const Graph&, const Node&) { return true; };
  CHECK(convolve_channels_last(large, all).graph == large);
}

}  // namespace
}  // namespace weft
