// Gradients of pooling. Each element of the source sums over the windows that
// it is in, so that none is written twice and the order is always the same.
#include "compiler/lowering/operators/pool_windows.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// Where a call's arguments stand: the number of dimensions pooled, and whether
/// its windows may be spread out.
struct Form {
  std::size_t rank;
  bool dilates;
};

std::vector<Windows> windows_of(const Call& call, const Form& form) {
  const Shape counts = call.tensor(0, "grad_output").shape();
  const Shape source = call.result().shape;
  const std::size_t rank = form.rank;
  if (source.size() < rank || counts.size() != source.size()) {
    throw Unsupported{"gradients of windows of such dimensions"};
  }
  const std::size_t before = source.size() - rank;
  const Shape taps = spread(call.integers(2, "kernel_size"), rank, {});
  const Shape stride = spread(call.integers(3, "stride"), rank, taps);
  const Shape padding =
      spread(call.integers(4, "padding"), rank, Shape(rank, 0));
  Shape dilation(rank, 1);
  if (form.dilates) {
    dilation = spread(call.integers(5, "dilation"), rank, dilation);
  }
  std::vector<Windows> windows;
  for (std::size_t i = 0; i < rank; ++i) {
    windows.push_back({taps.at(i), stride[i], padding[i], dilation[i],
                       source[before + i], counts[before + i]});
  }
  return windows;
}

/// In how many windows a point of the source can be.
std::int64_t meetings(const Windows& w) {
  return ((w.taps - 1) * w.dilation + w.stride) / w.stride;
}

/// What an element of the source has of the window at a position of
/// `grad_output`, where it is in that window.
using OfWindow = std::function<ExprId(const Position& source,
                                      const Position& window, Guard guard)>;

Virtual summed(Lowering& in, DType dtype, const Shape& source,
               const std::vector<Windows>& windows, const OfWindow& share) {
  const std::size_t rank = windows.size();
  const std::size_t before = source.size() - rank;
  Shape shape = source;
  std::int64_t all = 1;
  for (const Windows& w : windows) {
    shape.push_back(meetings(w));
    all *= shape.back();
  }
  const Virtual shares(dtype, shape, [=, &in](const Position& at) {
    const Position input_position(at.begin(), at.begin() + source.size());
    Position window(at.begin(), at.begin() + before);
    Guard guard;
    for (std::size_t i = 0; i < rank; ++i) {
      const Windows& w = windows[i];
      const Index from_edge = at[before + i] + w.padding;
      const Index back = at[source.size() + i];
      window.push_back(floor_div(from_edge, w.stride) - back);
      const Index into = floor_mod(from_edge, w.stride) + back * w.stride;
      guard = in.both(guard, in.inside(window.back(), w.count));
      guard = in.both(guard, in.inside(into, (w.taps - 1) * w.dilation + 1));
    }
    return share(input_position, window, guard);
  });
  if (all > 1)
    return in.reduce(Reduction::sum, shares, last_dims(shares, rank))[0];
  return Virtual(dtype, source, [=](const Position& at) {
    Position only = at;
    only.insert(only.end(), rank, Index(0));
    return shares.at(only);
  });
}

Values averaged(const Call& call, const std::vector<Windows>& windows,
                const Virtual& divisor) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual each = in.pointwise(
      "div", dtype, {in.cast(call.tensor(0, "grad_output"), dtype), divisor});
  return {summed(
      in, dtype, call.result().shape, windows,
      [=, &in](const Position&, const Position& window, Guard guard) {
        return in.read_if(each, window, guard, in.arena().integer(dtype, 0));
      })};
}

Rule average_pool_gradient(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    const auto windows = windows_of(call, {rank, false});
    if (call.given(7, "divisor_override")) {
      return averaged(call, windows,
                      in.number(dtype, call.number(7, "divisor_override", 1)));
    }
    return averaged(
        call, windows,
        element_counts(in, dtype, call.tensor(0, "grad_output").shape(),
                       windows, call.flag(6, "count_include_pad", true)));
  };
}

// The window's gradient goes to the place that its maximum was found at.
Rule max_pool_gradient(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    const Shape source = call.result().shape;
    const auto windows = windows_of(call, {rank, true});
    const Virtual gradient = in.cast(call.tensor(0, "grad_output"), dtype);
    const Virtual indices = call.tensor(7, "indices");
    return {summed(
        in, dtype, source, windows,
        [=, &in](const Position& at, const Position& window, Guard guard) {
          return where_found(in, gradient, indices, window, guard,
                             flat_offset(at, source, source.size() - rank));
        })};
  };
}

}  // namespace

void add_pool_gradient_rules(RuleTable& table) {
  table["avg_pool2d_backward"] = average_pool_gradient(2);
  table["avg_pool3d_backward"] = average_pool_gradient(3);
  table["max_pool2d_with_indices_backward"] = max_pool_gradient(2);
  table["max_pool3d_with_indices_backward"] = max_pool_gradient(3);
}

}  // namespace weft
