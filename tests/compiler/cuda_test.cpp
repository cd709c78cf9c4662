#include <doctest/doctest.h>

#include <set>

#include "compiler/cuda/generate.hpp"
#include "compiler/cuda/launches.hpp"
#include "compiler/cuda/scalar.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

// What an H200 is.
const GpuFacts h200 = {
    .sms = 132, .l2_bytes = 60 << 20, .shared_bytes = 227 << 10};

std::vector<std::string> texts(Graph graph, int variants_max = 16,
                               const GpuFacts& facts = h200) {
  const auto sources = generate_cuda(subgraph_of(std::move(graph)), facts,
                                     {.variants_max = variants_max});
  REQUIRE(sources.has_value());
  std::vector<std::string> found;
  for (const KernelSource& source : *sources) found.push_back(source.text);
  return found;
}

std::string first(Graph graph) { return texts(std::move(graph), 1).front(); }

}  // namespace

TEST_CASE("elements are read and written four at a time") {
  const std::string text =
      first(one_call("aten.relu.default", dense({64, 1024})));
  CHECK(text.contains("load_vector<4>(in0 + "));
  CHECK(text.contains("store_vector(out0"));
  CHECK_FALSE(text.contains("if (p <"));
}

TEST_CASE(
    "elements that make no whole vector go one by one, and none too far") {
  const std::string text = first(one_call("aten.relu.default", dense({1023})));
  CHECK_FALSE(text.contains("load_vector<4>(in0"));
  CHECK(text.contains("if (p < 1023)"));
}

TEST_CASE("a product is rounded before it is added, unless rounding is free") {
  Graph graph;
  const TensorType type = dense({64, 1024});
  add_input(graph, "x", type);
  add_call(graph, "y", "aten.mul.Tensor", {ref("x"), ref("x")}, type);
  add_call(graph, "z", "aten.sub.Tensor", {ref("y"), ref("x")}, type);
  graph.outputs = {"z"};
  CHECK(first(graph).contains("minus<float>("));
  CHECK(first(graph).contains("times<float>("));
  CHECK_FALSE(first(graph).contains("#define WEFT_ROUNDS_FREELY"));
  const auto freely =
      generate_cuda(subgraph_of(graph), h200, {1, /*free_rounding=*/true});
  REQUIRE(freely.has_value());
  CHECK(freely->front().text.contains("#define WEFT_ROUNDS_FREELY"));
}

TEST_CASE("what stands between operators of halves is rounded to halves") {
  Graph graph;
  TensorType type = dense({64, 1024});
  type.dtype = DType::bf16;
  add_input(graph, "x", type);
  add_call(graph, "y", "aten.exp.default", {ref("x")}, type);
  add_call(graph, "z", "aten.add.Tensor", {ref("y"), ref("x")}, type);
  graph.outputs = {"z"};
  const auto casts = [&](bool free_rounding) {
    const auto sources =
        generate_cuda(subgraph_of(graph), h200, {1, free_rounding});
    REQUIRE(sources.has_value());
    const std::string& text = sources->front().text;
    return text.substr(text.find("__global__")).contains("(float)x");
  };
  CHECK(casts(false));
  CHECK_FALSE(casts(true));
}

TEST_CASE("an index that can be outside is checked, one that cannot is not") {
  Graph graph;
  TensorType places = dense({64});
  places.dtype = DType::i64;
  add_input(graph, "w", dense({50, 8}));
  add_input(graph, "i", places);
  add_call(graph, "y", "aten.embedding.default", {ref("w"), ref("i")},
           dense({64, 8}));
  graph.outputs = {"y"};
  CHECK(first(graph).contains("in_bounds_of_integers("));
  Graph within;
  add_input(within, "w", dense({50, 8}));
  add_input(within, "i", places);
  add_call(within, "j", "aten.remainder.Scalar", {ref("i"), integer(50)},
           places);
  add_call(within, "y", "aten.embedding.default", {ref("w"), ref("j")},
           dense({64, 8}));
  within.outputs = {"y"};
  CHECK_FALSE(first(within).contains("in_bounds_of_integers("));
}

TEST_CASE("halves are read and written eight at a time") {
  TensorType type = dense({64, 1024});
  type.dtype = DType::bf16;
  const std::string text = first(one_call("aten.relu.default", type));
  CHECK(text.contains("Vector<Brain, 8>"));
  CHECK(text.contains("load_vector<8>(in0 + "));
  CHECK(text.contains("(float)q"));
}

TEST_CASE("beside wider elements halves are read four at a time") {
  Graph graph;
  TensorType half = dense({64, 1024});
  half.dtype = DType::f16;
  add_input(graph, "x", half);
  add_call(graph, "y", "aten._to_copy.default", {ref("x")}, dense({64, 1024}));
  graph.outputs = {"y"};
  const std::string text = first(std::move(graph));
  CHECK(text.contains("Vector<Half, 4>"));
  CHECK(text.contains("Vector<float, 4>"));
}

TEST_CASE("what stores nothing but halves takes coarse functions") {
  Graph graph = softmax(64, 1024);
  CHECK_FALSE(first(graph).contains("coarse_exp"));
  for (Node& node : graph.nodes) node.values[0]->dtype = DType::bf16;
  const std::string text = first(graph);
  CHECK(text.contains("#define exp coarse_exp"));
  CHECK_FALSE(text.contains("fma("));
  graph.nodes.back().values[0]->dtype = DType::f32;
  CHECK_FALSE(first(graph).contains("coarse_exp"));
}

TEST_CASE("where a quotient is rounded down it is exact") {
  TensorType type = dense({64, 1024});
  type.dtype = DType::bf16;
  TensorType column = dense({64, 1});
  column.dtype = DType::bf16;
  Graph graph;
  add_input(graph, "x", type);
  add_call(graph, "m", "aten.amax.default", {ref("x"), list({1}), truth(true)},
           column);
  add_call(graph, "q", "aten.div.Tensor", {ref("x"), ref("m")}, type);
  graph.outputs = {"q"};
  CHECK_FALSE(first(graph).contains("fma("));
  add_call(graph, "f", "aten.floor.default", {ref("q")}, type);
  graph.outputs = {"f"};
  CHECK(first(graph).contains("fma("));
}

TEST_CASE("a short row is held in the registers of a warp") {
  const std::string text = first(softmax(5000, 512));
  CHECK(text.contains("fold_warp<Exponentials<float>, 32>"));
  CHECK_FALSE(text.contains("__shared__ __align__"));
}

TEST_CASE("a longer row is held by a block") {
  const std::string text = first(softmax(5000, 8192));
  CHECK(text.contains("fold_block<Exponentials<float>, 256>"));
  CHECK(text.contains("h0[u] = load_vector<4>"));
}

TEST_CASE(
    "a row of megabytes streams: some warps read, some fold, some store") {
  const std::string text = first(softmax(4096, 393'216));
  CHECK(text.contains("\"cooperative\":true"));
  CHECK(text.contains("copy_bulk(ring"));
  CHECK(text.contains("PartialExchange<Exponentials<float>, 6, 33, "));
  CHECK_FALSE(text.contains("load_vector<4>(in0"));
}

TEST_CASE("who stores a stream keeps chunks of its next row in registers") {
  const std::string all = first(softmax(4096, 393'216));
  CHECK(all.contains("h0[8];"));
  CHECK_FALSE(all.contains("read(8);"));
  const std::string some = first(softmax(64, 4 << 20));
  CHECK(some.contains("h0[13];"));
  CHECK(some.contains("read(12);"));
}

TEST_CASE("softmax knows its exponents and its quotients") {
  const std::string text = first(softmax(4096, 393'216));
  CHECK(text.contains("= exp_below(x"));
  CHECK(text.contains("= share(x"));
  // Another quotient of the same divisor is any quotient.
  Graph graph = softmax(4096, 393'216);
  add_call(graph, "s", "aten.sum.dim_IntList",
           {ref("x"), list({1}), truth(true)}, dense({4096, 1}));
  add_call(graph, "q", "aten.div.Tensor", {ref("x"), ref("s")},
           dense({4096, 393'216}));
  graph.outputs.push_back("q");
  CHECK(first(graph).contains("= quotient(x"));
}

TEST_CASE("rows that begin anywhere do not stream") {
  CHECK_FALSE(first(softmax(5000, 65'535)).contains("copy_bulk("));
}

TEST_CASE("columns of rows that begin anywhere stream by whole rows") {
  const auto largest = [](std::int64_t matrices, std::int64_t columns) {
    Graph graph;
    add_input(graph, "x", dense({matrices, 4096, columns}));
    add_call(graph, "y", "aten.amax.default", {ref("x"), list({1})},
             dense({matrices, columns}));
    graph.outputs = {"y"};
    return graph;
  };
  const std::string text = first(largest(128, 4095));
  CHECK(text.contains("copy_bulk(rows + position.slot * 16380, in0"));
  CHECK(text.contains("if (inside) out0"));
  // Too few matrices, and columns that lie in vectors.
  CHECK_FALSE(first(largest(64, 4095)).contains("copy_bulk("));
  CHECK_FALSE(first(largest(128, 4096)).contains("copy_bulk("));
}

TEST_CASE("weights keep a row that all blocks share from streaming") {
  const auto weighted = [](std::int64_t rows, std::int64_t width) {
    Graph graph = softmax(rows, width);
    add_input(graph, "w", dense({width}));
    add_call(graph, "z", "aten.mul.Tensor", {ref("y"), ref("w")},
             dense({rows, width}));
    graph.outputs = {"z"};
    return graph;
  };
  CHECK(first(weighted(4096, 393'216)).contains("copy_bulk("));
  CHECK_FALSE(first(weighted(16, 4 << 20)).contains("copy_bulk("));
}

TEST_CASE("a row of megabytes is held by a cluster, and read once") {
  const std::string text = texts(softmax(4096, 393'216)).at(1);
  CHECK(text.contains("\"cluster\":8"));
  CHECK(text.contains("fold_cluster<Exponentials<float>, 1024, 8>"));
  CHECK_FALSE(text.contains("load_vector<4>(in0"));
}

TEST_CASE("as many clusters are launched as the driver says fit") {
  const auto grid_of = [](std::map<std::int64_t, std::int64_t> probed) {
    GpuFacts facts = h200;
    facts.clusters_of = std::move(probed);
    const std::string text = texts(softmax(4096, 393'216), 16, facts).at(1);
    const std::size_t at = text.find("\"grid\":[") + 8;
    return std::stoi(text.substr(at));
  };
  CHECK(grid_of({}) == 8 * 15);
  CHECK(grid_of({{8, 14}}) == 8 * 14);
  CHECK(grid_of({{4, 1}}) == 8 * 15);
}

TEST_CASE("a device without clusters is asked for none") {
  Machine machine;
  machine.gpus.resize(1);
  machine.gpus[0].arch = "sm_100a";
  CHECK(gpu_facts(machine).clusters);
  machine.gpus[0].arch = "sm_80";
  CHECK_FALSE(gpu_facts(machine).clusters);
  GpuFacts older = h200;
  older.clusters = false;
  for (const std::string& text : texts(softmax(4096, 393'216), 16, older)) {
    CHECK_FALSE(text.contains("\"cluster\""));
    CHECK_FALSE(text.contains("fold_cluster<"));
    CHECK_FALSE(text.contains("copy_bulk("));
  }
}

TEST_CASE("a row that no cluster can hold is held by blocks that all run") {
  const std::string text = texts(softmax(64, 4 << 20)).at(1);
  CHECK(text.contains("\"cooperative\":true"));
  CHECK(text.contains("fold_team<Exponentials<float>"));
}

TEST_CASE("rows that begin anywhere are read in vectors even so") {
  const std::string text = first(softmax(5000, 65'535));
  CHECK(text.contains("const int shift = (unsigned)(v0 * 65535) % 4;"));
  CHECK(text.contains("copy_masked<4>(ring"));
  CHECK(text.contains("store_masked("));
}

TEST_CASE("rows of more than 31 bits are counted in 64") {
  const std::string text = first(softmax(2, (std::int64_t{1} << 31) + 1));
  CHECK(text.contains(", r, (long long)2147483649)"));
  CHECK_FALSE(text.contains("const int r ="));
}

TEST_CASE("softmax finds its largest value and its sum in one walk") {
  const std::string text = first(softmax(5000, 8192));
  CHECK(text.contains("Exponentials<float>::next(a"));
  CHECK_FALSE(text.contains("Sum<float>::of(a"));
}

TEST_CASE("much that is folded to few points is shared out, then merged") {
  Graph graph;
  add_input(graph, "x", dense({1 << 14, 1 << 12}));
  add_call(graph, "y", "aten.sum.default", {ref("x")}, dense({}));
  graph.outputs = {"y"};
  const std::string text = first(std::move(graph));
  CHECK(text.contains("part"));
  CHECK(text.contains("kernel1"));
}

TEST_CASE("variants differ, and are the same every time") {
  const auto all = texts(softmax(4096, 393'216));
  CHECK(all.size() > 2);
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
  CHECK(all == texts(softmax(4096, 393'216)));
}

TEST_CASE("no more variants than asked for") {
  CHECK(texts(softmax(4096, 393'216), 2).size() == 2);
}

TEST_CASE("products are not CUDA's: the library has them") {
  Graph graph;
  add_input(graph, "x", dense({64, 64}));
  add_input(graph, "y", dense({64, 64}));
  add_call(graph, "z", "aten.mm.default", {ref("x"), ref("y")},
           dense({64, 64}));
  graph.outputs = {"z"};
  CHECK_FALSE(cuda_can_lower(graph, graph.nodes.back()));
  const auto sources =
      generate_cuda(subgraph_of(std::move(graph)), h200, {.variants_max = 4});
  REQUIRE_FALSE(sources.has_value());
  CHECK(sources.error().code == ErrorCode::wrong_input);
}

TEST_CASE("what a source launches is told as JSON, and code stands without") {
  const std::string text = texts(softmax(64, 4 << 20)).at(1);
  const std::string told = launches_in(text).value();
  CHECK(told.starts_with("{\"launches\":[{\"arguments\":["));
  CHECK(told.contains("\"cooperative\":true"));
  const std::string code = without_launches(text);
  CHECK(code.contains("kernel0("));
  CHECK_FALSE(code.contains("/* launches"));
  CHECK_FALSE(launches_in(code).has_value());
  CHECK_FALSE(launches_in("/* launches\n{\"launches\": []}\n*/\n").has_value());
  CHECK_FALSE(launches_in("/* launches\nnone\n*/\n").has_value());
  CHECK(without_launches(code) == code);
}

TEST_CASE("where a GPU is, CUDA's and Triton's sources come in turns") {
  const Target* gpu = find_target("gpu");
  REQUIRE(gpu != nullptr);
  Machine machine;
  machine.gpus.resize(1);
  machine.gpus[0].arch = "sm_90";
  machine.gpus[0].sms = 132;
  machine.gpus[0].shared_bytes = 227 << 10;
  const auto sources = generate_sources(
      *gpu, subgraph_of(softmax(4096, 393'216)), machine, {.variants_max = 4});
  REQUIRE(sources.has_value());
  REQUIRE(sources->size() == 4);
  CHECK((*sources)[0].target == "cuda");
  CHECK((*sources)[1].target == "triton");
  CHECK((*sources)[2].target == "cuda");
}

TEST_CASE("a place moves with a lane by one, by none, or by who knows") {
  const LoopVar a{0, 64};
  const LoopVar b{1, 8};
  CHECK(step_along(Index(b) * 64 + Index(a), a.id, 4) == 1);
  CHECK(step_along(Index(b), a.id, 4) == 0);
  CHECK(step_along(Index(a) * 2, a.id, 4) == -1);
  CHECK(step_along(floor_div(Index(a), 16), a.id, 4) == 0);
  CHECK(step_along(floor_div(Index(a), 6), a.id, 4) == -1);
  CHECK(is_aligned(Index(b) * 64 + Index(a), a.id, 4));
  CHECK_FALSE(is_aligned(Index(b) * 63 + Index(a), a.id, 4));
  CHECK_FALSE(is_aligned(Index(a) + 1, a.id, 4));
}

TEST_CASE("windows that overlap are walked in one way, others in several") {
  const auto pooled = [](std::int64_t step) {
    Graph graph;
    add_input(graph, "x", dense({4, 64, 60, 60, 60}));
    const std::int64_t made = (60 - 3) / step + 1;
    add_call(graph, "y", "aten.avg_pool3d.default",
             {ref("x"), list({3, 3, 3}), list({step, step, step})},
             dense({4, 64, made, made, made}));
    graph.outputs = {"y"};
    return graph;
  };
  CHECK(texts(pooled(1)).size() == 1);
  CHECK(texts(pooled(3)).size() > 1);
}

TEST_CASE("windows of a volume go across rows first and keep what they share") {
  const auto pooled = [](std::int64_t width) {
    Graph graph;
    add_input(graph, "x", dense({16, 32, 128, 128, width}));
    add_call(graph, "y", "aten.avg_pool3d.default",
             {ref("x"), list({3, 3, 3}), list({2, 2, 2}), list({1, 1, 1})},
             dense({16, 32, 64, 64, (width - 1) / 2 + 1}));
    graph.outputs = {"y"};
    return texts(graph).front();
  };
  const std::string wide = pooled(256);
  CHECK(wide.contains("PartialVector<Sum<float>, true> kept[1][1];"));
  CHECK(wide.contains("beside<-1, 1, 0>"));
  // A row within a warp needs nothing of others.
  CHECK(pooled(128).contains("PartialVector<Sum<float>, false>"));
  // Rows that do not begin in vectors are windows in registers, as before.
  CHECK_FALSE(pooled(126).contains("PartialVector<"));
}

TEST_CASE("what is finite is asked by its size") {
  for (const std::string& text : texts(variance(64, 1 << 20))) {
    CHECK_FALSE(takes_from_itself(text));
  }
}
