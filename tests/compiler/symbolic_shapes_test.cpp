#include "compiler/graph/symbolic_shapes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "compiler/compose/problem_at.hpp"
#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/lowering/any_size.hpp"
#include "compiler/targets.hpp"
#include "compiler/text/common_text.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

Graph at_batch(std::int64_t n) {
  GraphBuilder b;
  b.input("x", dense({n, 3}));
  b.call("r", "relu", {"x"}, dense({n, 3}));
  b.call("e", "exp", {"r"}, dense({n, 3}));
  return b.outputs({"e"}).graph;
}

std::map<Sizes, Graph> captures() {
  std::map<Sizes, Graph> graphs;
  for (const std::int64_t n : {8, 37, 41, 43}) graphs[{n}] = at_batch(n);
  return graphs;
}

Graph symbolic_graph() {
  Graph graph = at_batch(8);
  graph.symbolic_shapes = *fit_symbolic_shapes(captures(), {8});
  return graph;
}

/// A batch and a sequence, which a view joins.
Graph at_sizes(std::int64_t n, std::int64_t length) {
  GraphBuilder b;
  b.input("x", dense({n, length, 3}));
  b.call("r", "relu", {"x"}, dense({n, length, 3}));
  b.call("v", "view", {"r"}, dense({n * length, 3}));
  return b.outputs({"v"}).graph;
}

const std::vector<Sizes> kPairs = {{8, 16},  {37, 43}, {37, 47}, {37, 61},
                                   {41, 43}, {41, 47}, {41, 61}, {53, 59}};

std::map<Sizes, Graph> pair_captures() {
  std::map<Sizes, Graph> graphs;
  for (const Sizes& pair : kPairs) graphs[pair] = at_sizes(pair[0], pair[1]);
  return graphs;
}

Graph symbolic_twice() {
  Graph graph = at_sizes(8, 16);
  graph.symbolic_shapes = *fit_symbolic_shapes(pair_captures(), {8, 16});
  return graph;
}

/// A text by the pairs that have code, less the graph's own.
template <typename Of>
std::map<Sizes, std::string> pair_texts(const Of& of) {
  std::map<Sizes, std::string> texts;
  for (const Sizes& pair : kPairs) {
    if (pair[0] > 8) texts[pair] = of(pair[0], pair[1]);
  }
  return texts;
}

constexpr std::string_view kOne[] = {"n"};
constexpr std::string_view kTwo[] = {"n", "m"};

}  // namespace

TEST_CASE("what differs between captures grows by what it differs by") {
  const auto symbolic_shapes = fit_symbolic_shapes(captures(), {8});
  REQUIRE(symbolic_shapes.has_value());
  CHECK(symbolic_shapes->sizes == Sizes{8});
  CHECK(symbolic_shapes->coefficients.size() == 3);
  CHECK(symbolic_shapes->coefficients.at("/nodes/0/values/0/shape/0") ==
        Coefficients{1});
}

TEST_CASE("a graph that grows can be had at any size, and is itself again") {
  const Graph graph = symbolic_graph();
  Graph other = *graph_at(graph, {101});
  CHECK(other.symbolic_shapes.sizes == Sizes{101});
  CHECK(*graph_at(other, {8}) == graph);
  other.symbolic_shapes = {};
  CHECK(other == at_batch(101));
  CHECK_FALSE(graph_at(graph, {-1}).has_value());
}

TEST_CASE("what grows survives the graph's JSON") {
  const auto read = parse_graph(graph_to_json(symbolic_graph()));
  REQUIRE(read.has_value());
  CHECK(*read == symbolic_graph());
  std::string text = graph_to_json(symbolic_graph());
  text.replace(text.find("/nodes/0/values"), 8, "/nodes/9");
  CHECK(!parse_graph(text).has_value());
}

TEST_CASE("captures that differ otherwise are told apart by node and place") {
  auto graphs = captures();
  graphs[{41}].nodes[1].values[0]->shape[1] = 4;
  const auto symbolic_shapes = fit_symbolic_shapes(graphs, {8});
  REQUIRE(!symbolic_shapes.has_value());
  CHECK(symbolic_shapes.error().message.contains("r (aten.relu.default)"));
  CHECK(symbolic_shapes.error().message.contains("values/0/shape/1"));
  CHECK(symbolic_shapes.error().message.contains("4 at the size 41"));
}

TEST_CASE("samples are primes that are no extent, judged sizes others") {
  Graph graph = symbolic_graph();
  graph.nodes[0].values[0]->shape[1] = 41;
  const auto samples = sample_sizes(graph);
  CHECK(samples == std::vector<Sizes>{{37}, {43}, {47}, {53}});
  for (const Sizes& judged : judged_sizes({8})) {
    CHECK(std::ranges::find(samples, judged) == samples.end());
    CHECK(judged != Sizes{8});
  }
}

/// Whether a number that is had so of the sizes passes for a symbolic one.
bool passes(const std::vector<Sizes>& sizes, const auto& of) {
  std::vector<std::pair<Sizes, std::int64_t>> values;
  for (const Sizes& one : sizes) values.emplace_back(one, of(one));
  return fit_polynomial(values).has_value();
}

TEST_CASE("what a model divides by grows at captured sizes by no chance") {
  Graph graph = symbolic_graph();
  const auto one = sizes_to_capture(graph);
  CHECK(one == std::vector<Sizes>{{37}, {41}, {43}, {240}});
  CHECK(sizes_to_capture(symbolic_twice()) == std::vector<Sizes>{{37, 41},
                                                                 {37, 43},
                                                                 {37, 72},
                                                                 {60, 41},
                                                                 {60, 43},
                                                                 {60, 72},
                                                                 {246, 240}});
  graph.symbolic_shapes.sizes = {1537};
  const std::vector<std::vector<Sizes>> all = {one, sizes_to_capture(graph)};
  for (const auto& sizes : all) {
    CHECK(passes(sizes, [](const Sizes& s) { return s[0] * s[0] - 1; }));
    for (const std::int64_t k : {2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48}) {
      CHECK_FALSE(
          passes(sizes, [k](const Sizes& s) { return s[0] * s[0] / k * k; }));
      CHECK_FALSE(passes(sizes, [k](const Sizes& s) { return s[0] / k * k; }));
    }
  }
  for (const std::int64_t k : {2, 3, 4, 6, 8, 12, 24, 48}) {
    for (const bool has_product : {false, true}) {
      const auto of = [&](const Sizes& s) {
        return (has_product ? s[0] * s[1] * s[1] : s[0] + s[1] * s[1]) / k * k;
      };
      CHECK_FALSE(passes(sizes_to_capture(symbolic_twice()), of));
    }
  }
}

TEST_CASE("a number that 64 bits do not hold has no graph") {
  Graph graph = symbolic_graph();
  graph.symbolic_shapes.coefficients["/nodes/0/values/0/shape/0"] = {
      .square = 1 << 20};
  CHECK(graph_at(graph, {1'000}).has_value());
  CHECK_FALSE(graph_at(graph, {std::int64_t{1} << 32}).has_value());
}

TEST_CASE("the size is read from a dimension that is it, or a multiple") {
  GraphBuilder b;
  b.input("w", dense({5, 8})).input("x", dense({32, 8}));
  Graph graph = b.input("y", dense({8, 3})).outputs({"y"}).graph;
  graph.symbolic_shapes = {{8}, {{"/nodes/1/values/0/shape/0", {4}}}};
  const auto multiple = size_sources(graph);
  REQUIRE(multiple.has_value());
  CHECK(multiple->front().node == "x");
  CHECK(multiple->front().divisor == 4);
  graph.symbolic_shapes.coefficients["/nodes/2/values/0/shape/0"] = {1};
  CHECK(size_sources(graph)->front().node == "y");
  graph.symbolic_shapes.coefficients = {{"/nodes/0/values/0/shape/0", {1}}};
  CHECK_FALSE(size_sources(graph).has_value());
}

TEST_CASE("texts have in common what does not grow") {
  const auto text = common_text({{{37}, "a[37] + 2.5f * v37 + 74 - 35 + 1368"},
                                 {{41}, "a[41] + 2.5f * v37 + 82 - 39 + 1680"},
                                 {{43}, "a[43] + 2.5f * v37 + 86 - 41 + 1848"},
                                 {{47}, "a[47] + 2.5f * v37 + 94 - 45 + 2208"}},
                                kOne);
  REQUIRE(text.has_value());
  CHECK(*text == "a[n] + 2.5f * v37 + (2 * n) - (n - 2) + (n * n - 1)");
}

TEST_CASE("a name, a fraction or what grows unevenly is nothing in common") {
  for (const auto* format : {"v", "1.", "2 * "}) {
    std::map<Sizes, std::string> texts;
    for (const std::int64_t n : {37, 41, 43, 47}) {
      const bool evenly = std::string_view(format) != "2 * ";
      texts[{n}] = format + std::to_string(evenly ? n : n * n * n);
    }
    CHECK(!common_text(texts, kOne).has_value());
  }
  CHECK(
      !common_text({{{37}, "a"}, {{41}, "a"}, {{43}, "ab"}, {{47}, "a"}}, kOne)
           .has_value());
  CHECK(!common_text({{{37}, "1"}, {{41}, "2"}, {{43}, "3"}}, kOne)
             .has_value());  // too few to tell
}

TEST_CASE("of two sizes an integer grows with each and with their product") {
  const auto symbolic_shapes = fit_symbolic_shapes(pair_captures(), {8, 16});
  REQUIRE(symbolic_shapes.has_value());
  CHECK(symbolic_shapes->coefficients.at("/nodes/0/values/0/shape/0") ==
        Coefficients{1, 0, 0});
  CHECK(symbolic_shapes->coefficients.at("/nodes/0/values/0/shape/1") ==
        Coefficients{0, 1, 0});
  CHECK(symbolic_shapes->coefficients.at("/nodes/0/values/0/stride/0") ==
        Coefficients{0, 3, 0});
  CHECK(symbolic_shapes->coefficients.at("/nodes/2/values/0/shape/0") ==
        Coefficients{0, 0, 1});
  const Graph graph = symbolic_twice();
  Graph other = *graph_at(graph, {1, 101});
  CHECK(*graph_at(other, {8, 16}) == graph);
  CHECK(*parse_graph(graph_to_json(graph)) == graph);
  other.symbolic_shapes = {};
  CHECK(other == at_sizes(1, 101));
}

TEST_CASE("six numbers are found, and one sample more checks them") {
  const auto found = [](const auto& of, std::size_t count) {
    std::vector<std::pair<Sizes, std::int64_t>> values;
    for (std::size_t i = 1; i <= count; ++i) {
      values.emplace_back(kPairs[i], of(kPairs[i][0], kPairs[i][1]));
    }
    return fit_polynomial(values);
  };
  const auto even = [](std::int64_t n, std::int64_t m) {
    return 5 - 7 * n + 2 * m + 3 * n * m - 11 * m * m + n * m * m;
  };
  const auto multiple = found(even, 7);
  REQUIRE(multiple.has_value());
  CHECK(multiple->coefficients == Coefficients{-7, 2, 3, -11, 1});
  CHECK(multiple->constant == 5);
  CHECK_FALSE(found(even, 5).has_value());  // a corner is missing
  const auto square = [](std::int64_t n, std::int64_t) { return n * n; };
  CHECK(found(square, 6).has_value());  // which is why there is a seventh
  CHECK_FALSE(found(square, 7).has_value());
  const auto half = [](std::int64_t n, std::int64_t m) { return n * m / 2; };
  CHECK_FALSE(found(half, 7).has_value());
  const auto cube = [](std::int64_t, std::int64_t m) { return m * m * m; };
  CHECK_FALSE(found(cube, 7).has_value());
}

TEST_CASE("of one size an integer grows with it and with its square") {
  std::vector<std::pair<Sizes, std::int64_t>> values;
  for (const std::int64_t n : {37, 41, 43, 47, 2, 1'000'003}) {
    values.push_back({{n}, 4 - 3 * n + 5 * n * n});
  }
  const auto found = fit_polynomial(values);
  REQUIRE(found.has_value());
  CHECK(found->coefficients == Coefficients{.first = -3, .square = 5});
  CHECK(found->constant == 4);
  for (auto& [size, value] : values) value = size[0] * (size[0] - 1) / 2;
  CHECK_FALSE(fit_polynomial(values).has_value());  // halves of both
  CHECK_FALSE(fit_polynomial(std::span(values).first(2)).has_value());
}

TEST_CASE("rates are lists without the zeros that nobody needs") {
  for (const Coefficients& one :
       {Coefficients{2}, Coefficients{.first = 2, .square = 3}}) {
    CHECK(coefficients_of(list_of(one, 1), 1) == one);
  }
  for (const Coefficients& one :
       {Coefficients{2}, Coefficients{1, 2, 3, 4, 5}}) {
    CHECK(coefficients_of(list_of(one, 2), 2) == one);
  }
  CHECK(list_of(Coefficients{2}, 1) == std::vector<std::int64_t>{2});
  CHECK(list_of(Coefficients{2}, 2) == std::vector<std::int64_t>{2, 0, 0});
  CHECK_FALSE(coefficients_of({1, 2, 3}, 1).has_value());
  CHECK_FALSE(coefficients_of({1, 2}, 2).has_value());
}

TEST_CASE("pairs of samples are primes, none twice and none an extent") {
  Graph graph = symbolic_twice();
  graph.nodes[0].values[0]->shape[2] = 47;
  const auto samples = sample_sizes(graph);
  CHECK(samples == std::vector<Sizes>{{37, 59},
                                      {37, 61},
                                      {37, 67},
                                      {41, 59},
                                      {41, 61},
                                      {41, 67},
                                      {43, 71}});
  std::set<Sizes> judged;
  for (const Sizes& pair : judged_sizes({8, 16})) {
    CHECK(std::ranges::find(samples, pair) == samples.end());
    CHECK((pair[0] != pair[1] || pair[0] == 1));
    judged.insert(pair);
  }
  CHECK(judged.contains({1, 1}));
  CHECK(judged.size() == 5);
}

TEST_CASE("a text for two sizes has them and their product in it") {
  const auto number = [](auto n) { return std::to_string(n); };
  const auto text = common_text(
      pair_texts([&](std::int64_t n, std::int64_t m) {
        return "a[" + number(n) + ", " + number(m) + "] " + number(n * m) +
               " " + number(3 * m + 8 * n * m - 2) + " " + number(2 * m - n) +
               " " + number(4 * n * m * m + m * m);
      }),
      kTwo);
  REQUIRE(text.has_value());
  CHECK(*text ==
        "a[n, m] (n * m) (3 * m + 8 * n * m - 2) (-1 * n + 2 * m) "
        "(m * m + 4 * n * m * m)");
  const auto uneven = [&](std::int64_t n, std::int64_t m) {
    return number(std::max(n, m - 4));
  };
  CHECK_FALSE(common_text(pair_texts(uneven), kTwo).has_value());
}

TEST_CASE("each of two sizes is read where a dimension is a multiple of it") {
  const auto shape = [](int node, int dim) {
    return "/nodes/" + std::to_string(node) + "/values/0/shape/" +
           std::to_string(dim);
  };
  const auto sources = size_sources(symbolic_twice());
  REQUIRE(sources.has_value());
  CHECK((*sources)[0].dim == 0);
  CHECK((*sources)[1].dim == 1);
  GraphBuilder b;
  Graph graph = b.input("x", dense({3 * 8 * 16, 2})).outputs({"x"}).graph;
  graph.symbolic_shapes = {{8, 16}, {{shape(0, 0), {0, 0, 3}}}};
  const auto joined = size_sources(graph);  // the product does for the first
  REQUIRE(joined.has_value());
  CHECK((*joined)[0].divisor == 3);
  CHECK((*joined)[1].node.empty());
  graph.symbolic_shapes.coefficients[shape(0, 1)] = {0, 1, 0};
  CHECK_FALSE(size_sources(graph).has_value());
}

TEST_CASE("a model's plan for any size has pieces of a name of their own") {
  const Target& cpu = *find_target("cpu");
  const auto plan = partition_for_sizes(captures(), {8}, cpu);
  REQUIRE(plan.has_value());
  REQUIRE(plan->subgraphs.size() == 1);
  const Subgraph& piece = plan->subgraphs.front();
  CHECK(piece.graph.symbolic_shapes.is_symbolic());
  CHECK(piece.id != partition(at_batch(8), cpu).subgraphs.front().id);
  CHECK(plan->placements.front().subgraph == piece.id);
  const auto read = parse_plan(plan_to_json(*plan));
  REQUIRE(read.has_value());
  CHECK(read->subgraphs.front().graph.symbolic_shapes ==
        piece.graph.symbolic_shapes);
}

TEST_CASE("what folds the size, or scans it, is part of a piece for any") {
  std::map<Sizes, Graph> models;
  for (const std::int64_t n : {8, 37, 41, 43}) {
    GraphBuilder b;
    b.input("x", dense({n, 3}));
    b.call("r", "exp", {"x"}, dense({n, 3}));
    b.call("s", "sum.dim_IntList", {"r"}, dense({3}),
           {Arg{Arg::List{Arg{std::int64_t{0}}}}});
    b.call("m", "amax", {"r"}, dense({n, 1}),
           {Arg{Arg::List{Arg{std::int64_t{1}}}}, Arg{true}});
    b.call("t", "add.Tensor", {"m", "s"}, dense({n, 3}));
    b.tuple("v", "var_mean.correction", {"r"}, {dense({1, 3}), dense({1, 3})});
    b.graph.nodes.back().args.push_back(Arg{Arg::List{Arg{std::int64_t{0}}}});
    b.graph.nodes.back().kwargs.emplace_back("keepdim", Arg{true});
    b.getitem("mean", "v", 1);
    b.call("c", "cumsum", {"r"}, dense({n, 3}), {Arg{std::int64_t{0}}});
    b.call("d", "mul.Tensor", {"t", "c"}, dense({n, 3}));
    b.call("u", "add.Tensor", {"d", "mean"}, dense({n, 3}));
    models[{n}] = b.outputs({"u"}).graph;
  }
  const Target& cpu = *find_target("cpu");
  REQUIRE(partition(models[{8}], cpu).placements.size() == 1);
  const auto plan = partition_for_sizes(models, {8}, cpu);
  REQUIRE(plan.has_value());
  std::set<std::string> ours;
  for (const Placement& placement : plan->placements) {
    ours.insert(placement.nodes.begin(), placement.nodes.end());
  }
  CHECK(ours ==
        std::set<std::string>{"r", "s", "m", "t", "v", "mean", "c", "d", "u"});
}

Graph of_products(std::int64_t n) {
  GraphBuilder b;
  b.input("x", dense({n, 512}));
  b.input("w", dense({512, 512}));
  b.call("p", "mm", {"x", "w"}, dense({n, 512}));
  b.call("t", "permute", {"x"}, {DType::f32, {512, n}, {1, 512}},
         {Arg{Arg::List{Arg{std::int64_t{1}}, Arg{std::int64_t{0}}}}});
  b.call("folded", "mm", {"t", "p"}, dense({512, 512}));
  b.call("squared", "mm", {"x", "t"}, dense({n, n}));
  b.call("e", "exp", {"p"}, dense({n, 512}));
  Graph graph = b.outputs({"e", "folded", "squared"}).graph;
  for (Node& node : graph.nodes) node.tf32 = node.target.contains(".mm.");
  return graph;
}

TEST_CASE("elements are counted up to what 64 bits hold") {
  const auto checked = [](std::int64_t heads) {
    std::map<Sizes, Graph> graphs;
    for (const auto& [n, m] : {std::pair{8, 16},
                               {37, 43},
                               {37, 47},
                               {37, 61},
                               {41, 43},
                               {41, 47},
                               {41, 61},
                               {53, 59}}) {
      GraphBuilder b;
      b.input("x", dense({n, heads, m, m}));
      b.call("e", "mean.default", {"x"}, dense({}));
      graphs[{n, m}] = b.outputs({"e"}).graph;
    }
    Graph graph = graphs.at({8, 16});
    graph.symbolic_shapes = *fit_symbolic_shapes(graphs, {8, 16});
    return check_any_size(graph, {});
  };
  CHECK(checked(1).has_value());
  CHECK(checked(900).has_value());
  const auto more = checked(1'000);
  REQUIRE_FALSE(more.has_value());
  CHECK(more.error().message ==
        "x has more elements at the sizes 1000003 and 100003 than 64 bits "
        "count");
}

TEST_CASE("whose a product is goes by what it takes at the plan's own size") {
  const Target& triton = *find_target("triton");
  CutOptions cut;
  cut.for_sizes = true;
  // Then only few rows are worth a kernel of ours.
  cut.choices.contraction.our_product = {0.01, 0.02};
  const auto is_ours = [&](std::int64_t n) {
    const Graph graph = of_products(n);
    return choose_contraction(graph, *graph.find("p"), cut) !=
           ContractionChoice::vendor;
  };
  std::int64_t n = 4;
  while (n < (1 << 20) && is_ours(n) == is_ours(n + 1)) ++n;
  REQUIRE(is_ours(n) != is_ours(n + 1));
  std::map<Sizes, Graph> models;
  for (std::int64_t size : {n, n + 1, n + 2, n + 3}) {
    models[{size}] = of_products(size);
  }
  for (const std::int64_t size : {n, n + 1}) {
    const auto plan = partition_for_sizes(models, {size}, triton, cut);
    REQUIRE(plan.has_value());
    std::set<std::string> ours;
    for (const Placement& placement : plan->placements) {
      ours.insert(placement.nodes.begin(), placement.nodes.end());
    }
    CHECK(ours.contains("e"));
    CHECK(ours.contains("p") == is_ours(size));
    CHECK(ours.contains("folded"));
    CHECK(ours.contains("squared"));
  }
}

TEST_CASE("with a contested product there is a cut around the library's") {
  std::map<Sizes, Graph> models;
  for (const std::int64_t size : {8, 37, 41, 43}) {
    models[{size}] = of_products(size);
  }
  CutOptions cut;
  cut.for_sizes = true;
  const auto plan =
      partition_candidates_for_sizes(models, {8}, *find_target("triton"), cut);
  REQUIRE(plan.has_value());
  REQUIRE(plan->others.size() == 1);
  const Plan& other = plan->others.front();
  CHECK(other.model.symbolic_shapes.is_symbolic());
  CHECK(other.subgraphs.front().graph.symbolic_shapes.is_symbolic());
  const auto takes = [](const Plan& one) {
    return std::ranges::any_of(one.placements, [](const Placement& each) {
      return std::ranges::find(each.nodes, "p") != each.nodes.end();
    });
  };
  CHECK(takes(*plan));
  CHECK_FALSE(takes(other));
}

TEST_CASE("a problem at another size ends in its inputs at that") {
  const std::string text =
      problem_at("class Model: pass\n", {67, 5},
                 std::vector<SymbolicDim>{{-1, 1}, {2, 0}});
  CHECK(text.starts_with("class Model: pass\n"));
  CHECK(text.contains("\nWEFT_SIZES = [67, 5]\n"));
  CHECK(text.contains("\nWEFT_PLACES = [(-1, 1), (2, 0)]\n"));
}

}  // namespace weft
