// Which written-out attention becomes the library's operator, and what does
// not, however like it it looks.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/graph/graph_check.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const TensorType kQueries = dense({2, 4, 8, 16});
const TensorType kScores = dense({2, 4, 8, 8});
const TensorType kSquare = dense({8, 8});
const TensorType kFlags = dense({8, 8}, DType::boolean);

Arg integers(std::vector<std::int64_t> values) {
  Arg::List list;
  for (const std::int64_t value : values) list.push_back({value});
  return {std::move(list)};
}

/// Queries by keys: `s`, of 2 images of 4 heads of 8 by 16.
GraphBuilder scores() {
  GraphBuilder b;
  b.input("q", kQueries).input("k", kQueries).input("v", kQueries);
  b.call("kt", "permute", {"k"}, dense({2, 4, 16, 8}),
         {integers({0, 1, 3, 2})});
  b.graph.nodes.back().values[0]->stride = {512, 128, 1, 16};
  return b.call("s", "matmul", {"q", "kt"}, kScores);
}

/// The softmax of that, by values: `o`.
GraphBuilder& finished(GraphBuilder& b, const std::string& of,
                       std::int64_t dim = -1) {
  b.call("w", "_softmax", {of}, kScores, {{dim}, {false}});
  return b.call("o", "matmul", {"w", "v"}, kQueries).outputs({"o"});
}

FusedAttention fused(const GraphBuilder& b,
                     AttentionMasks masks = AttentionMasks::causal_flag) {
  FusedAttention made = fuse_attention(b.graph, masks);
  REQUIRE(check_graph(made.graph));
  return made;
}

/// The one call that was made.
const Node& call_of(const FusedAttention& made) {
  REQUIRE(made.calls.size() == 1);
  const Node* call = made.graph.find(made.calls.front());
  REQUIRE(call != nullptr);
  return *call;
}

const Arg* keyword(const Node& call, std::string_view name) {
  for (const auto& [key, arg] : call.kwargs) {
    if (key == name) return &arg;
  }
  return nullptr;
}

/// Beside the scores: `at` counts the keys, `down` the queries.
GraphBuilder scores_and_positions() {
  GraphBuilder b = scores();
  const TensorType row = dense({8}, DType::i64);
  b.call("at", "arange.start_step", {}, row,
         {{std::int64_t{0}}, {std::int64_t{8}}});
  return b.call("down", "view", {"at"}, dense({8, 1}, DType::i64),
                {integers({8, 1})});
}

bool is_unchanged(const GraphBuilder& b) {
  return fused(b).calls.empty() && fused(b).graph == b.graph;
}

int count(const Graph& graph, std::string_view target) {
  return static_cast<int>(
      std::ranges::count(graph.nodes, target, &Node::target));
}

/// Ones below the diagonal, and on it.
GraphBuilder& triangle(GraphBuilder& b, std::int64_t from = 0) {
  b.call("ones", "full", {}, kFlags, {integers({8, 8}), {true}});
  b.call("low", "tril", {"ones"}, kFlags, {{from}});
  return b.call("hidden", "logical_not", {"low"}, kFlags);
}

}  // namespace

TEST_CASE("products about a softmax are one call, of what they are made of") {
  GraphBuilder b = scores();
  b.call("z", "div.Tensor", {"s"}, kScores, {{4.0}});
  const FusedAttention made = fused(finished(b, "z"));
  const Node& call = call_of(made);
  CHECK(call.target == "aten.scaled_dot_product_attention.default");
  CHECK(call.args ==
        std::vector<Arg>{{NodeRef{"q"}}, {NodeRef{"k"}}, {NodeRef{"v"}}});
  CHECK(*keyword(call, "scale") == Arg{0.25});
  CHECK(keyword(call, "attn_mask") == nullptr);
  CHECK(keyword(call, "is_causal") == nullptr);
  CHECK(count(made.graph, "aten._softmax.default") == 0);
  CHECK(made.graph.outputs == std::vector<std::string>{"o"});
  CHECK(*made.graph.find("o")->values[0] == kQueries);
}

TEST_CASE("numbers that queries, keys and scores are scaled by are one scale") {
  GraphBuilder b;
  b.input("q", kQueries).input("k", kQueries).input("v", kQueries);
  b.call("q2", "mul.Tensor", {"q"}, kQueries, {{0.5}});
  b.call("k2", "mul.Tensor", {"k"}, kQueries, {{0.25}});
  b.call("kt", "transpose.int", {"k2"}, dense({2, 4, 16, 8}),
         {{std::int64_t{2}}, {std::int64_t{-1}}});
  b.call("s", "matmul", {"q2", "kt"}, kScores);
  b.call("z", "mul.Tensor", {"s"}, kScores, {{3.0}});
  const FusedAttention made = fused(finished(b, "z"));
  const Node& call = call_of(made);
  CHECK(*keyword(call, "scale") == Arg{0.375});
  CHECK(call.args[0] == Arg{NodeRef{"q"}});
  CHECK(call.args[1] == Arg{NodeRef{"k"}});
}

TEST_CASE("without a scale it is one, not the operator's own") {
  GraphBuilder b = scores();
  CHECK(*keyword(call_of(fused(finished(b, "s"))), "scale") == Arg{1.0});
}

TEST_CASE("a softmax in float32 of halves is the operator's own") {
  const auto half = [](TensorType type) {
    type.dtype = DType::f16;
    return type;
  };
  GraphBuilder b;
  for (const char* name : {"q", "k", "v"}) b.input(name, half(kQueries));
  b.call("kt", "transpose.int", {"k"}, half(dense({2, 4, 16, 8})),
         {{std::int64_t{2}}, {std::int64_t{3}}});
  b.call("s", "matmul", {"q", "kt"}, half(kScores));
  b.call("wide", "_to_copy", {"s"}, kScores);
  b.call("p", "_softmax", {"wide"}, kScores, {{std::int64_t{3}}, {false}});
  b.call("w", "_to_copy", {"p"}, half(kScores));
  b.call("o", "matmul", {"w", "v"}, half(kQueries)).outputs({"o"});
  CHECK(fused(b).calls.size() == 1);
}

TEST_CASE("einsum's letters say which dimension is which") {
  const auto einsum = [](GraphBuilder& b, const char* name, const char* text,
                         const char* left, const char* right, TensorType type) {
    b.call(
        name, "einsum", {}, std::move(type),
        {{std::string(text)}, {Arg::List{{NodeRef{left}}, {NodeRef{right}}}}});
  };
  const TensorType rows = dense({2, 8, 4, 16});
  GraphBuilder b;
  b.input("q", rows).input("k", rows).input("v", rows);
  einsum(b, "s", "bjhd,bihd->bhij", "k", "q", kScores);
  b.call("w", "_softmax", {"s"}, kScores, {{std::int64_t{3}}, {false}});
  einsum(b, "o", "bhij,bjhd->bihd", "w", "v", rows);
  const FusedAttention made = fused(b.outputs({"o"}));
  const Node& call = call_of(made);
  const auto source = [&](std::size_t i) {
    const Node* view =
        made.graph.find(std::get<NodeRef>(call.args[i].value).name);
    CHECK(view->args[1] == integers({0, 2, 1, 3}));
    return std::get<NodeRef>(view->args[0].value).name;
  };
  CHECK(source(0) == "q");
  CHECK(source(1) == "k");
  CHECK(source(2) == "v");
  CHECK(call.values[0]->shape == kQueries.shape);
  CHECK(*made.graph.find("o")->values[0] == rows);
}

TEST_CASE("three dimensions are images of one head") {
  const TensorType rows = dense({6, 8, 16});
  GraphBuilder b;
  b.input("q", rows).input("k", rows).input("v", rows);
  b.call("kt", "permute", {"k"}, dense({6, 16, 8}), {integers({0, 2, 1})});
  b.placeholder(NodeKind::parameter, "bias", dense({6, 8, 8}));
  b.call("s", "baddbmm", {"bias", "q", "kt"}, dense({6, 8, 8}));
  b.graph.nodes.back().kwargs = {{"beta", {std::int64_t{1}}}, {"alpha", {0.5}}};
  b.call("w", "_softmax", {"s"}, dense({6, 8, 8}),
         {{std::int64_t{2}}, {false}});
  b.call("o", "bmm", {"w", "v"}, rows).outputs({"o"});
  const FusedAttention made = fused(b);
  const Node& call = call_of(made);
  CHECK(call.values[0]->shape == std::vector<std::int64_t>{6, 1, 8, 16});
  CHECK(*keyword(call, "scale") == Arg{0.5});
  CHECK(keyword(call, "attn_mask") != nullptr);
}

TEST_CASE("views that join and cut the batch between the products are seen") {
  const TensorType rows = dense({8, 8, 16}), flat = dense({8, 8, 8});
  GraphBuilder b;
  b.input("q", rows).input("k", rows).input("v", rows);
  b.input("mask", dense({2, 1, 1, 8}));
  b.call("kt", "permute", {"k"}, dense({8, 16, 8}), {integers({0, 2, 1})});
  b.call("s", "bmm", {"q", "kt"}, flat);
  b.call("cut", "view", {"s"}, kScores, {integers({2, 4, 8, 8})});
  b.call("a", "add.Tensor", {"cut", "mask"}, kScores);
  b.call("joined", "view", {"a"}, flat, {integers({8, 8, 8})});
  b.call("w", "_softmax", {"joined"}, flat, {{std::int64_t{-1}}, {false}});
  b.call("o", "bmm", {"w", "v"}, rows).outputs({"o"});
  CHECK(call_of(fused(b)).values[0]->shape == kQueries.shape);
}

TEST_CASE("a causal mask of numbers is told, or given where that is wanted") {
  GraphBuilder b = scores();
  triangle(b).call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores,
                   {{-kInfinity}});
  finished(b, "m");
  const FusedAttention told = fused(b);
  CHECK(told.has_causal);
  CHECK(*keyword(call_of(told), "is_causal") == Arg{true});
  CHECK(keyword(call_of(told), "attn_mask") == nullptr);
  // What a row does not see counts where it is not finite.
  CHECK(count(told.graph, "aten.cumsum.default") == 1);
  const FusedAttention given = fused(b, AttentionMasks::explicit_mask);
  CHECK(keyword(call_of(given), "is_causal") == nullptr);
  CHECK(keyword(call_of(given), "attn_mask") != nullptr);
  CHECK(count(given.graph, "aten.cumsum.default") == 0);
  // Every row has a key: no row is looked at for one.
  CHECK(count(given.graph, "aten.all.dim") == 0);
}

TEST_CASE("positions that are compared are a causal mask, too") {
  GraphBuilder b = scores_and_positions();
  b.call("hidden", "gt.Tensor", {"at", "down"}, kFlags);
  b.call("fill", "scalar_tensor", {}, dense({}), {{-kInfinity}});
  b.call("m", "where.self", {"hidden", "fill", "s"}, kScores);
  CHECK(fused(finished(b, "m")).has_causal);
}

TEST_CASE("positions that go together otherwise than by distance are none") {
  GraphBuilder b = scores_and_positions();
  b.call("above", "gt.Tensor", {"at", "down"}, kFlags);
  b.call("both", "logical_and", {"at", "down"}, kFlags);
  b.call("hidden", "logical_or", {"above", "both"}, kFlags);
  b.call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores, {{-kInfinity}});
  CHECK_FALSE(fused(finished(b, "m")).has_causal);
}

TEST_CASE("a mask whose steps share their operands is read once") {
  GraphBuilder b = scores();
  triangle(b);
  std::string mask = "hidden";
  for (int i = 0; i < 28; ++i) {  // read twice each, it would take minutes
    const std::string next = "hidden" + std::to_string(i);
    b.call(next, "logical_or", {mask, mask}, kFlags);
    mask = next;
  }
  b.call("m", "masked_fill.Scalar", {"s", mask}, kScores, {{-kInfinity}});
  CHECK(fused(finished(b, "m")).has_causal);
}

TEST_CASE("an added triangle of minus infinities is given: nan stays nan") {
  GraphBuilder b = scores();
  b.call("full", "full", {}, kSquare, {integers({8, 8}), {-kInfinity}});
  b.call("up", "triu", {"full"}, kSquare, {{std::int64_t{1}}});
  b.call("m", "add.Tensor", {"s", "up"}, kScores);
  const FusedAttention made = fused(finished(b, "m"));
  CHECK_FALSE(made.has_causal);
  CHECK(keyword(call_of(made), "attn_mask") != nullptr);
}

TEST_CASE("a triangle that lies otherwise is given, not told") {
  for (const std::int64_t from : {-1, 1}) {
    GraphBuilder b = scores();
    triangle(b, from).call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores,
                           {{-kInfinity}});
    const FusedAttention made = fused(finished(b, "m"));
    CHECK_FALSE(made.has_causal);
    CHECK(keyword(call_of(made), "is_causal") == nullptr);
    // From -1 the first row has no key: it is nan, as in the model.
    CHECK(count(made.graph, "aten.all.dim") == (from < 0 ? 1 : 0));
  }
}

TEST_CASE("a mask that is known at the call is given, and its empty rows nan") {
  GraphBuilder b = scores();
  b.placeholder(NodeKind::buffer, "seen", dense({1, 1, 8, 8}));
  b.call("hidden", "eq.Scalar", {"seen"}, dense({1, 1, 8, 8}, DType::boolean),
         {{std::int64_t{0}}});
  b.call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores, {{-kInfinity}});
  const FusedAttention made = fused(finished(b, "m"));
  const Arg* mask = keyword(call_of(made), "attn_mask");
  REQUIRE(mask != nullptr);
  const Node* last = made.graph.find(std::get<NodeRef>(mask->value).name);
  CHECK(last->target == "aten.masked_fill.Scalar");
  CHECK(std::isnan(std::get<double>(last->args[2].value)));
  CHECK(call_of(made).args[0] == Arg{NodeRef{"q"}});
}

TEST_CASE("where a row is filled with a number, its keys weigh the same") {
  GraphBuilder b = scores();
  b.input("hidden", dense({2, 1, 1, 8}, DType::boolean));
  b.call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores, {{-1e9}});
  const FusedAttention made = fused(finished(b, "m"));
  const Node* query =
      made.graph.find(std::get<NodeRef>(call_of(made).args[0].value).name);
  CHECK(query->target == "aten.masked_fill.Scalar");
  CHECK(query->args[2] == Arg{0.0});
}

TEST_CASE("a result that is turned and copied is copied only where it must") {
  GraphBuilder b = scores();
  finished(b, "s");
  const TensorType rows = dense({2, 8, 4, 16});
  b.call("turned", "permute", {"o"}, rows, {integers({0, 2, 1, 3})});
  b.call("c", "clone", {"turned"}, rows);
  b.call("r", "relu", {"c"}, rows);
  b.graph.outputs = {"r"};
  const FusedAttention made = fused(b);
  CHECK(made.graph.find("o") == nullptr);
  CHECK(made.graph.find("c")->target == "aten.contiguous.default");
  CHECK(count(made.graph, "aten.contiguous.default") == 1);
  CHECK(count(made.graph, "aten.clone.default") == 0);
}

TEST_CASE("a softmax over another dimension is no attention") {
  for (const std::int64_t dim : {0, 1, 2, -2}) {
    GraphBuilder b = scores();
    CHECK(is_unchanged(finished(b, "s", dim)));
  }
}

TEST_CASE("scores or weights that something else needs stay") {
  for (const char* name : {"s", "w"}) {
    GraphBuilder b = scores();
    finished(b, "s");
    b.graph.outputs = {"o", name};
    CHECK(is_unchanged(b));
    b.call("r", "relu", {name}, kScores);
    b.graph.outputs = {"o", "r"};
    CHECK(is_unchanged(b));
  }
}

TEST_CASE("what is added, scaled or drawn behind the softmax is no attention") {
  const auto behind = [](const char* op, std::vector<std::string> refs,
                         std::vector<Arg> more) {
    GraphBuilder b = scores();
    b.input("mask", kSquare);
    b.call("w", "_softmax", {"s"}, kScores, {{std::int64_t{-1}}, {false}});
    b.call("x", op, std::move(refs), kScores, std::move(more));
    return b.call("o", "matmul", {"x", "v"}, kQueries).outputs({"o"});
  };
  CHECK(is_unchanged(behind("add.Tensor", {"w", "mask"}, {})));
  CHECK(is_unchanged(behind("mul.Tensor", {"w"}, {{2.0}})));
  CHECK(is_unchanged(behind("dropout", {"w"}, {{0.1}, {true}})));
  CHECK(is_unchanged(
      behind("transpose.int", {"w"}, {{std::int64_t{2}}, {std::int64_t{3}}})));
}

TEST_CASE("a scale behind a mask would scale the mask: it stays") {
  GraphBuilder b = scores();
  b.input("mask", kSquare).call("m", "add.Tensor", {"s", "mask"}, kScores);
  b.call("z", "mul.Tensor", {"m"}, kScores, {{0.25}});
  CHECK(is_unchanged(finished(b, "z")));
}

TEST_CASE("a scale that is a tensor is not the operator's") {
  GraphBuilder b = scores();
  b.placeholder(NodeKind::parameter, "t", dense({4, 1, 1}));
  b.call("z", "mul.Tensor", {"s", "t"}, kScores);
  CHECK(is_unchanged(finished(b, "z")));
}

TEST_CASE("a fill that scores may be as small as is no mask") {
  for (const double fill : {0.0, -100.0, kInfinity}) {
    GraphBuilder b = scores();
    b.input("hidden", kFlags);
    b.call("m", "masked_fill.Scalar", {"s", "hidden"}, kScores, {{fill}});
    CHECK(is_unchanged(finished(b, "m")));
  }
}

TEST_CASE("scores of float64, and masks of another type, stay") {
  GraphBuilder b = scores();
  for (Node& node : b.graph.nodes) node.values[0]->dtype = DType::f64;
  finished(b, "s");
  for (const std::size_t back : {1, 2}) {
    b.graph.nodes[b.graph.nodes.size() - back].values[0]->dtype = DType::f64;
  }
  CHECK(is_unchanged(b));
  GraphBuilder c = scores();
  c.input("mask", dense({8, 8}, DType::f64));
  c.call("m", "add.Tensor", {"s", "mask"}, kScores);
  CHECK(is_unchanged(finished(c, "m")));
}

TEST_CASE("a mask that makes the scores larger stays") {
  GraphBuilder b = scores();
  b.input("mask", dense({3, 1, 1, 1, 8}));
  b.call("m", "add.Tensor", {"s", "mask"}, dense({3, 2, 4, 8, 8}));
  b.call("w", "_softmax", {"m"}, dense({3, 2, 4, 8, 8}),
         {{std::int64_t{-1}}, {false}});
  b.call("o", "matmul", {"w", "v"}, dense({3, 2, 4, 8, 16})).outputs({"o"});
  CHECK(is_unchanged(b));
}

TEST_CASE("a graph that is written into in place is left alone") {
  GraphBuilder b = scores();
  b.call("i", "relu_", {"v"}, kQueries);
  CHECK(fused(finished(b, "s")).calls.empty());
}

TEST_CASE("sequences without elements are left alone") {
  const TensorType none = dense({2, 4, 0, 16}), square = dense({2, 4, 0, 0});
  GraphBuilder b;
  b.input("q", none).input("kt", dense({2, 4, 16, 0})).input("v", none);
  b.call("s", "matmul", {"q", "kt"}, square);
  b.call("w", "_softmax", {"s"}, square, {{std::int64_t{-1}}, {false}});
  b.call("o", "matmul", {"w", "v"}, none).outputs({"o"});
  CHECK(is_unchanged(b));
}

TEST_CASE("the model as it is written stays a way where it is no kernels'") {
  GraphBuilder b = scores();
  finished(b, "s");
  Target none = *find_target("cpu");
  none.can_lower = [](const Graph&, const Node&, const CutOptions&) {
    return Decision{false, "the target has no code"};
  };
  const Plan plan = partition_candidates(b.graph, none);
  CHECK(plan.placements.empty());
  CHECK(plan.fused_attention_calls.empty());
  REQUIRE(plan.others.size() == 1);
  CHECK(plan.others.front().fused_attention_calls.size() == 1);
}

TEST_CASE("a model with attention is cut both ways, on a processor, too") {
  GraphBuilder b = scores();
  finished(b, "s");
  const Plan plan = partition_candidates(b.graph, *find_target("cpu"));
  CHECK(plan.fused_attention_calls.empty());
  CHECK(plan.label == "attention as written");
  REQUIRE(plan.others.size() == 1);
  const Plan& other = plan.others.front();
  CHECK(other.label == "attention in one call");
  CHECK(other.fused_attention_calls.size() == 1);
  const auto back = parse_plan(plan_to_json(plan));
  REQUIRE(back);
  CHECK(back->others.front().fused_attention_calls ==
        other.fused_attention_calls);
  // With little time the one call is tried first.
  const Plan brief = partition_for_short_run(b.graph, *find_target("cpu"));
  CHECK(brief.fused_attention_calls.size() == 1);
  REQUIRE(brief.others.size() == 1);
  CHECK(brief.others.front().fused_attention_calls.empty());
  CutOptions none;
  none.no_extern = true;
  CHECK(partition_for_short_run(b.graph, *find_target("cpu"), none)
            .others.empty());
  CHECK(
      partition_candidates(b.graph, *find_target("cpu"), none).others.empty());
}

}  // namespace weft
