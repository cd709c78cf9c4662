#include "compiler/fusion/product_count.hpp"

#include <doctest/doctest.h>

#include "tests/compiler/graph_builder.hpp"

using namespace weft;

namespace {

Arg list_of(std::vector<std::int64_t> values) {
  Arg::List list;
  for (const std::int64_t value : values) list.push_back(Arg{value});
  return Arg{list};
}

std::int64_t convolution_operations(std::vector<std::int64_t> x,
                                    std::vector<std::int64_t> weight,
                                    std::vector<std::int64_t> out,
                                    bool transposed, std::int64_t groups) {
  GraphBuilder builder;
  builder.input("x", dense(std::move(x)))
      .input("w", dense(std::move(weight)))
      .call("y", "convolution", {"x", "w"}, dense(std::move(out)),
            {Arg{std::monostate{}}, list_of({1, 1}), list_of({0, 0}),
             list_of({1, 1}), Arg{transposed}, list_of({0, 0}), Arg{groups}});
  return count_products(builder.graph).convolution_operations;
}

}  // namespace

TEST_CASE("a product counts two operations a multiply-add") {
  GraphBuilder builder;
  builder.input("a", dense({4, 8}))
      .input("b", dense({8, 16}))
      .input("bias", dense({16}))
      .call("c", "mm", {"a", "b"}, dense({4, 16}))
      .call("d", "addmm", {"bias", "a", "b"}, dense({4, 16}))
      .call("e", "relu", {"d"}, dense({4, 16}));
  const ProductCount count = count_products(builder.graph);
  CHECK(count.matrix_operations == 2 * (2 * 4 * 8 * 16));
  CHECK(count.convolution_operations == 0);
}

TEST_CASE("a batched product counts every batch") {
  GraphBuilder builder;
  builder.input("a", dense({3, 4, 8}))
      .input("b", dense({3, 8, 16}))
      .call("c", "bmm", {"a", "b"}, dense({3, 4, 16}));
  CHECK(count_products(builder.graph).matrix_operations == 2 * 3 * 4 * 8 * 16);
}

TEST_CASE("what is computed in 16 bits is counted apart") {
  TensorType half = dense({4, 16});
  half.dtype = DType::bf16;
  GraphBuilder builder;
  builder.input("a", dense({4, 8}))
      .input("b", dense({8, 16}))
      .call("c", "mm", {"a", "b"}, half)
      .call("d", "relu", {"c"}, half);
  const ProductCount count = count_products(builder.graph);
  CHECK(count.half_operations == 2 * 4 * 8 * 16);
  CHECK(count.matrix_operations == 0);
}

TEST_CASE("a product that broadcasts counts each of its results") {
  GraphBuilder builder;
  builder.input("a", dense({3, 4, 8}))
      .input("b", dense({8, 16}))
      .input("weight", dense({5, 16}))
      .call("c", "matmul", {"a", "b"}, dense({3, 4, 16}))
      .call("d", "linear", {"c", "weight"}, dense({3, 4, 5}));
  CHECK(count_products(builder.graph).matrix_operations ==
        2 * (3 * 4 * 16 * 8) + 2 * (3 * 4 * 5 * 16));
}

TEST_CASE("an einsum of two counts every combination of its letters") {
  const auto counted = [](const std::string& equation) {
    GraphBuilder builder;
    builder.input("a", dense({2, 3, 4, 8})).input("b", dense({8, 5}));
    Node node;
    node.name = "c";
    node.target = "aten.einsum.default";
    node.args = {Arg{equation},
                 Arg{Arg::List{Arg{NodeRef{"a"}}, Arg{NodeRef{"b"}}}}};
    node.values = {dense({2, 3, 4, 5})};
    builder.graph.nodes.push_back(std::move(node));
    return count_products(builder.graph).matrix_operations;
  };
  CHECK(counted("bijl,lk->bijk") == 2 * (2 * 3 * 4 * 8 * 5));
  CHECK(counted("b i j l, l k -> b i j k") == 2 * (2 * 3 * 4 * 8 * 5));
  CHECK(counted("bijl,lk->bik") == 2 * (2 * 3 * 8 * 5));  // j goes before
  CHECK(counted("bijl,lk->bijlk") == 0);                  // nothing is summed
  CHECK(counted("...l,lk->...k") == 0);
  CHECK(counted("bij,lk->bik") == 0);
}

TEST_CASE("a convolution counts a filter for each element of its result") {
  CHECK(convolution_operations({2, 3, 8, 8}, {5, 3, 3, 3}, {2, 5, 6, 6}, false,
                               1) == 2LL * (2 * 5 * 6 * 6) * (3 * 3 * 3));
}

TEST_CASE("a depthwise convolution counts one channel's filter") {
  CHECK(convolution_operations({2, 3, 8, 8}, {3, 1, 3, 3}, {2, 3, 6, 6}, false,
                               3) == 2LL * (2 * 3 * 6 * 6) * (3 * 3));
}

TEST_CASE("a transposed convolution counts a filter for each input") {
  CHECK(convolution_operations({2, 3, 6, 6}, {3, 5, 3, 3}, {2, 5, 8, 8}, true,
                               1) == 2LL * (2 * 3 * 6 * 6) * (5 * 3 * 3));
}

TEST_CASE("attention counts both of its products") {
  const TensorType type = dense({2, 4, 16, 8});
  GraphBuilder builder;
  builder.input("q", type).input("k", type).input("v", type).call(
      "o", "scaled_dot_product_attention", {"q", "k", "v"}, type);
  CHECK(count_products(builder.graph).matrix_operations ==
        4LL * (2 * 4) * 16 * 16 * 8);
}
