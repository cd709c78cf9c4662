// Pooling into a given number of windows, as even as they can be, and its
// gradients: each element sums over the windows that it is in.
#include "compiler/lowering/operators/pool_windows.hpp"
#include "compiler/lowering/operators/spans.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// The windows of `counts` over `source`, in the last `rank` dimensions; or,
/// turned around, the windows that each element is in.
std::vector<Span> windows_of(const Shape& counts, const Shape& source,
                             std::size_t rank) {
  if (counts.size() != source.size() || source.size() < rank) {
    throw Unsupported{"windows of such dimensions"};
  }
  std::vector<Span> windows;
  for (std::size_t i = source.size() - rank; i < source.size(); ++i) {
    windows.push_back(adaptive_span(counts[i], source[i]));
  }
  return windows;
}

Virtual windowed(Lowering& in, const Virtual& value,
                 const std::vector<Span>& windows, ExprId outside) {
  return shares(
      value.dtype(), dims_before(value.shape(), windows.size()), windows, in,
      [=, &in](const Position&, const Position& element, Guard guard) {
        return in.read_if(value, element, guard, outside);
      });
}

/// The value over the windows' extents, one dimension after the other.
Virtual over_extents(Lowering& in, Virtual value,
                     const std::vector<Span>& windows) {
  const DType dtype = value.dtype();
  const std::size_t before = value.shape().size() - windows.size();
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Span& w = windows[i];
    const Virtual count(dtype, value.shape(), [=, &in](const Position& at) {
      if (w.is_even) return in.arena().integer(dtype, w.taps);
      const Index& window = at[before + i];
      return in.arena().cast(
          dtype, in.arena().position(w.end(window) - w.first(window)));
    });
    value = in.pointwise("div", dtype, {value, count});
  }
  return value;
}

Rule average(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (!is_float(dtype)) throw Unsupported{call.node().target};
    const Virtual value = call.tensor(0, "self");
    const auto windows = windows_of(call.result().shape, value.shape(), rank);
    const Virtual all =
        windowed(in, value, windows, in.arena().integer(dtype, 0));
    return {over_extents(
        in, in.reduce(Reduction::sum, all, last_dims(all, rank))[0], windows)};
  };
}

Rule average_gradient(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    const Shape& source = call.result().shape;
    const Virtual gradient = in.cast(call.tensor(0, "grad_output"), dtype);
    const Shape counts = gradient.shape();
    const Virtual each =
        over_extents(in, gradient, windows_of(counts, source, rank));
    return {sum_of_shares(
        dtype, dims_before(source, rank), windows_of(source, counts, rank), in,
        [=, &in](const Position&, const Position& window, Guard guard) {
          return in.read_if(each, window, guard, in.arena().integer(dtype, 0));
        })};
  };
}

Rule maximum(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = call.tensor(0, "self");
    const auto windows = windows_of(call.result().shape, value.shape(), rank);
    const Virtual all = windowed(in, value, windows, lowest(in, value.dtype()));
    const Shape dims = last_dims(all, rank);
    return {in.reduce(Reduction::max, all, dims)[0],
            flat_indices(in, index_of_maximum(in, all, dims), windows,
                         [&in](const Span& w, const Index& window, ExprId tap) {
                           ScalarArena& arena = in.arena();
                           return arena.call(
                               "add", DType::i64,
                               {arena.position(w.first(window)), tap});
                         })};
  };
}

// The window's gradient goes to the place that its maximum was found at.
Rule maximum_gradient(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    const Shape& source = call.result().shape;
    const Virtual gradient = in.cast(call.tensor(0, "grad_output"), dtype);
    const Virtual indices = call.tensor(2, "indices");
    return {sum_of_shares(
        dtype, dims_before(source, rank),
        windows_of(source, gradient.shape(), rank), in,
        [=, &in](const Position& at, const Position& window, Guard guard) {
          return where_found(in, gradient, indices, window, guard,
                             flat_offset(at, source, source.size() - rank));
        })};
  };
}

}  // namespace

void add_adaptive_pool_rules(RuleTable& table) {
  table["_adaptive_avg_pool2d"] = average(2);
  table["_adaptive_avg_pool3d"] = average(3);
  table["_adaptive_avg_pool2d_backward"] = average_gradient(2);
  table["_adaptive_avg_pool3d_backward"] = average_gradient(3);
  table["adaptive_max_pool2d"] = maximum(2);
  table["adaptive_max_pool3d"] = maximum(3);
  table["adaptive_max_pool2d_backward"] = maximum_gradient(2);
  table["adaptive_max_pool3d_backward"] = maximum_gradient(3);
}

}  // namespace weft
