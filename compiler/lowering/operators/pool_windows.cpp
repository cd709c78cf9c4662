#include "compiler/lowering/operators/pool_windows.hpp"

namespace weft {

Shape spread(Shape values, std::size_t rank, const Shape& otherwise) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) values.assign(rank, values[0]);
  if (values.size() != rank) throw Unsupported{"windows of such dimensions"};
  return values;
}

ExprId elements(Lowering& in, DType dtype, const Windows& w,
                const Index& window, bool with_padding) {
  ScalarArena& arena = in.arena();
  const std::int64_t margin = with_padding ? w.padding : 0;
  const Index first = w.first(window);
  const Index end = first + w.taps;
  const bool cut_before = first.range().first < -margin;
  const bool cut_after = end.range().second > w.source + margin;
  ExprId from = arena.position(first);
  ExprId to = arena.position(end);
  if (!cut_before && !cut_after) return arena.integer(dtype, w.taps);
  if (cut_before) {
    from = arena.call("maximum", DType::i64,
                      {from, arena.integer(DType::i64, -margin)});
  }
  if (cut_after) {
    to = arena.call("minimum", DType::i64,
                    {to, arena.integer(DType::i64, w.source + margin)});
  }
  return arena.cast(dtype, arena.call("sub", DType::i64, {to, from}));
}

Virtual element_counts(Lowering& in, DType dtype, const Shape& shape,
                       const std::vector<Windows>& windows, bool with_padding) {
  const std::size_t before = shape.size() - windows.size();
  return Virtual(dtype, shape, [=, &in](const Position& at) {
    std::int64_t whole = 1;
    ExprId product = -1;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const ExprId extent =
          elements(in, dtype, windows[i], at[before + i], with_padding);
      if (in.arena()[extent].op == ScalarOp::constant) {
        whole *= windows[i].taps;
      } else {
        product = product < 0
                      ? extent
                      : in.arena().call("mul", dtype, {product, extent});
      }
    }
    const ExprId fixed = in.arena().integer(dtype, whole);
    if (product < 0) return fixed;
    if (whole == 1) return product;
    return in.arena().call("mul", dtype, {product, fixed});
  });
}

Virtual index_of_maximum(Lowering& in, const Virtual& all, const Shape& dims) {
  const Virtual first =
      reduce_with_position(in, Reduction::argmax, all, dims)[1];
  if (!is_float(all.dtype())) return first;
  const Virtual indices(DType::i64, all.shape(), [=, &in](const Position& at) {
    Index flat;
    for (const std::int64_t dim : dims) {
      flat = flat * all.shape()[dim] + at[dim];
    }
    ScalarArena& arena = in.arena();
    return arena.call("select", DType::i64,
                      {arena.call("isnan", DType::boolean, {all.at(at)}),
                       arena.position(flat), arena.integer(DType::i64, -1)});
  });
  const Virtual last = in.reduce(Reduction::max, indices, dims)[0];
  return in.pointwise(
      "select", DType::i64,
      {in.pointwise("lt", DType::boolean, {last, in.number(DType::i64, 0)}),
       first, last});
}

ExprId where_found(Lowering& in, const Virtual& gradient,
                   const Virtual& indices, const Position& window, Guard guard,
                   const Index& here) {
  ScalarArena& arena = in.arena();
  const ExprId input_index =
      in.read_if(indices, window, guard, arena.integer(DType::i64, -1));
  const ExprId is_here =
      arena.call("eq", DType::boolean, {input_index, arena.position(here)});
  const DType dtype = gradient.dtype();
  const ExprId zero = arena.integer(dtype, 0);
  return arena.call("select", dtype,
                    {is_here, in.read_if(gradient, window, guard, zero), zero});
}

}  // namespace weft
