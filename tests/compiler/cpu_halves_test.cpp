// float16 and bfloat16 in generated code for CPUs: 16 bits in memory, float32
// in arithmetic, rounded where the model's operators round.
#include <doctest/doctest.h>

#include "compiler/cpu/generate.hpp"
#include "tests/compiler/small_graphs.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

TensorType half_type(DType dtype, std::vector<std::int64_t> shape) {
  TensorType type = dense(std::move(shape));
  type.dtype = dtype;
  return type;
}

/// exp(x) * x
Subgraph chain(DType dtype) {
  Graph graph;
  const TensorType type = half_type(dtype, {4, 100});
  add_input(graph, "x", type);
  add_call(graph, "y", "aten.exp.default", {ref("x")}, type);
  add_call(graph, "z", "aten.mul.Tensor", {ref("y"), ref("x")}, type);
  graph.outputs = {"z"};
  return subgraph_of(std::move(graph));
}

/// The kernel's function without the prelude.
std::string kernel_text(DType dtype, bool free_rounding = false) {
  LoopFacts facts;
  facts.vector_bytes = 64;
  LoweringOptions options;
  options.free_rounding = free_rounding;
  const auto sources = generate_cpu(chain(dtype), facts, 1, options);
  REQUIRE(sources.has_value());
  const std::string& text = sources->front().text;
  return text.substr(text.find("extern \"C\""));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("Halves are 16 bits in memory, in vectors of as many lanes") {
  const std::string text = kernel_text(DType::bf16);
  CHECK(has(text, "const uint16_t* __restrict in0, uint16_t* __restrict out0"));
  CHECK(has(text, "const u16v x"));
  CHECK(has(text, "load(in0 + "));
  CHECK(count(text, "from_bfloat16(") == 1);
  CHECK(count(text, "to_bfloat16(x") >= 1);
  CHECK_FALSE(has(text, "float16_"));
}

TEST_CASE("A result between two operators is rounded and stays float32") {
  CHECK(count(kernel_text(DType::bf16), "nearest_bfloat16(x") == 1);
  CHECK(count(kernel_text(DType::f16), "nearest_float16(x") == 1);
  CHECK_FALSE(has(kernel_text(DType::bf16, true), "nearest_"));
}

TEST_CASE("Functions are shorter if their result is rounded to a half next") {
  CHECK(has(kernel_text(DType::bf16), " half_exp(x"));
  const auto text_of = [](std::string target, std::vector<Arg> args,
                          const TensorType& in, const TensorType& out) {
    Graph graph;
    add_input(graph, "x", in);
    add_call(graph, "y", std::move(target), std::move(args), out);
    graph.outputs = {"y"};
    const auto sources = generate_cpu(subgraph_of(std::move(graph)), {}, 1);
    REQUIRE(sources.has_value());
    const std::string& text = sources->front().text;
    return text.substr(text.find("extern \"C\""));
  };
  const TensorType half = half_type(DType::f16, {4, 100});
  CHECK_FALSE(has(
      text_of("aten.exp.default", {ref("x")}, dense({4, 100}), dense({4, 100})),
      "half_exp"));
  // The logarithm of a sum may cancel with the largest element.
  CHECK_FALSE(has(text_of("aten.logsumexp.default", {ref("x"), list({1})}, half,
                          half_type(DType::f16, {4})),
                  "half_exp"));
}

TEST_CASE("A product with the reciprocal rounds ties in another way") {
  const auto text_of = [](DType dtype) {
    Graph graph;
    const TensorType type = half_type(dtype, {4, 100});
    add_input(graph, "x", type);
    add_call(graph, "y", "aten.div.Tensor", {ref("x"), Arg{3.0}}, type);
    graph.outputs = {"y"};
    const auto sources = generate_cpu(subgraph_of(std::move(graph)), {}, 1);
    REQUIRE(sources.has_value());
    const std::string& text = sources->front().text;
    return text.substr(text.find("extern \"C\""));
  };
  CHECK(has(text_of(DType::bf16), " / splat<float>"));
  CHECK(has(text_of(DType::f32), " / splat<float>"));
}

TEST_CASE("Products of halves stay PyTorch's on a processor") {
  const TensorType type = half_type(DType::bf16, {8, 8});
  Graph graph;
  add_input(graph, "x", type);
  const Node call =
      add_call(graph, "y", "aten.mm.default", {ref("x"), ref("x")}, type);
  CHECK_FALSE(can_lower(graph, call));
}
