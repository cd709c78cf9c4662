// How much arithmetic a graph's matrix products and convolutions take: what
// the floor of a model that is not bound by memory is worked out from.
#pragma once

#include <cstdint>

#include "compiler/graph/graph.hpp"

namespace weft {

/// Multiplications and additions, counted as two for a multiply-add, as the
/// calls are spelled: what an exact algebraic step would save is counted.
/// Apart, because their types and PyTorch's flags give them different
/// precisions.
struct ProductCount {
  std::int64_t matrix_operations = 0;  ///< of products, and of attention
  std::int64_t convolution_operations = 0;
  std::int64_t half_operations = 0;  ///< of either, in float16 and bfloat16
};

ProductCount count_products(const Graph& graph);

/// The same of one call.
ProductCount count_product(const Graph& graph, const Node& call);

}  // namespace weft
