// Runs of elements that each point of a dimension reads: a pooling's windows,
// or, in a gradient, the windows that an element is in. First and last are
// index expressions, so runs may be uneven and may overlap.
#pragma once

#include <functional>
#include <vector>

#include "compiler/lowering/operators/table.hpp"

namespace weft {

/// Point p of `count` reads elements first(p) to before end(p) of `source`.
struct Span {
  using Bound = std::function<Index(const Index&)>;
  Span(std::int64_t points, std::int64_t elements, Bound from, Bound to);

  std::int64_t count = 1;
  std::int64_t source = 1;
  Bound first;
  Bound end;
  std::int64_t taps = 1;  ///< elements of the longest run
  bool is_even = true;    ///< all runs are that long
};

/// `count` windows over `source` elements, as even as they can be: from
/// floor(p · source / count) to the next one's, rounded up. With both swapped
/// it says which windows an element is in.
Span adaptive_span(std::int64_t count, std::int64_t source);

/// What a point has of an element, where the guard holds.
using Share = std::function<ExprId(const Position& point,
                                   const Position& element, Guard guard)>;

/// [before…, points…, taps…]: the share of each of the last dimensions' points.
Virtual shares(DType dtype, const Shape& before, const std::vector<Span>& spans,
               Lowering& in, const Share& share);

/// The sum of each point's shares.
Virtual sum_of_shares(DType dtype, const Shape& before,
                      const std::vector<Span>& spans, Lowering& in,
                      const Share& share);

/// All but the last `rank` dimensions.
Shape dims_before(const Shape& shape, std::size_t rank);

}  // namespace weft
