// The windows of a pooling, one dimension at a time: for the rules that fold
// them and for those of their gradients.
#pragma once

#include "compiler/lowering/operators/table.hpp"

namespace weft {

/// One dimension's windows: element k of window o is o · stride + k · dilation
/// - padding of the source.
struct Windows {
  std::int64_t taps = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t source = 1;  ///< the dimension's extent
  std::int64_t count = 1;   ///< windows

  Index first(const Index& window) const { return window * stride - padding; }
  /// Whether a point of the source is in several.
  bool overlap() const { return taps > stride; }
};

/// A number for each of `rank` dimensions: as given, one for all, or otherwise.
Shape spread(Shape values, std::size_t rank, const Shape& otherwise);

/// Elements of a window: of the source alone, or with the padding about it. A
/// constant where all windows have as many.
ExprId elements(Lowering& in, DType dtype, const Windows& w,
                const Index& window, bool with_padding);

/// The same of windows of several dimensions, the last of a shape.
Virtual element_counts(Lowering& in, DType dtype, const Shape& shape,
                       const std::vector<Windows>& windows, bool with_padding);

/// The place in the window (the dims, flat) of its maximum: of equals the
/// first, but of several that are no numbers the last, as the framework has it.
Virtual place_of_maximum(Lowering& in, const Virtual& all, const Shape& dims);

/// Where that position of the source is, in its last `rank` dimensions alone.
Index flat_place(const Position& at, const Shape& source, std::size_t rank);

/// The window's gradient where its maximum was found here, else 0.
ExprId where_found(Lowering& in, const Virtual& gradient, const Virtual& places,
                   const Position& window, Guard guard, const Index& here);

}  // namespace weft
