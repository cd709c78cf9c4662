// The windows of a pooling, one dimension at a time: for the rules that reduce
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
/// first, but of several that are no numbers the last, as PyTorch has it.
Virtual index_of_maximum(Lowering& in, const Virtual& all, const Shape& dims);

/// The flat place in the source's space, from the place in the window:
/// index_of(windows of a dimension, one of them, tap) is where the tap is.
template <class Window, class IndexOf>
Virtual flat_indices(Lowering& in, const Virtual& in_window,
                     const std::vector<Window>& windows,
                     const IndexOf& index_of) {
  const std::size_t before = in_window.shape().size() - windows.size();
  return Virtual(DType::i64, in_window.shape(), [=, &in](const Position& at) {
    ScalarArena& arena = in.arena();
    const auto call = [&](const char* function, ExprId a, std::int64_t b) {
      return arena.call(function, DType::i64,
                        {a, arena.integer(DType::i64, b)});
    };
    ExprId rest = in_window.at(at);
    ExprId flat = arena.integer(DType::i64, 0);
    std::int64_t scale = 1;
    for (std::size_t i = windows.size(); i-- > 0;) {
      const Window& w = windows[i];
      const ExprId tap = call("remainder", rest, w.taps);
      rest = call("div_floor", rest, w.taps);
      const ExprId input_index = index_of(w, at[before + i], tap);
      flat = arena.call("add", DType::i64,
                        {flat, call("mul", input_index, scale)});
      scale *= w.source;
    }
    return flat;
  });
}

/// The window's gradient where its maximum was found here, else 0.
ExprId where_found(Lowering& in, const Virtual& gradient,
                   const Virtual& indices, const Position& window, Guard guard,
                   const Index& here);

}  // namespace weft
