// What decides who should compute a convolution, and in which layout.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

struct Convolution {
  const TensorType* image = nullptr;
  const TensorType* weight = nullptr;
  const TensorType* result = nullptr;
  std::int64_t groups = 1;
  std::int64_t window = 1;  ///< positions of the image that a result sums
  bool transposed = false;
  /// One a direction; `more`: what a transposed one adds to its result.
  std::vector<std::int64_t> steps, padding, dilation, more;
};

/// Of a call of aten.convolution with all of its nine arguments.
std::optional<Convolution> convolution_of(const Graph& graph, const Node& call);

}  // namespace weft
