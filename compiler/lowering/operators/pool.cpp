// Pooling of one to three dimensions: reductions over windows, which read
// nothing outside of the tensor.
#include <algorithm>
#include <limits>
#include <set>

#include "compiler/lowering/operators/pool_windows.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {

Shape last_dims(const Virtual& value, std::size_t rank) {
  if (value.shape().size() < rank) throw Unsupported{"such dimensions"};
  Shape dims;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(static_cast<std::int64_t>(value.shape().size() - rank + i));
  }
  return dims;
}

ExprId lowest(Lowering& in, DType dtype) {
  if (is_float(dtype)) {
    return in.arena().constant(dtype, -std::numeric_limits<double>::infinity());
  }
  return in.arena().integer(dtype, dtype == DType::i64 ? INT64_MIN : INT32_MIN);
}

namespace {

using Values = std::vector<std::optional<Virtual>>;

std::vector<Windows> windows_of(const Call& call, std::size_t rank,
                                bool dilates) {
  const Shape source = call.tensor(0, "self").shape();
  const Shape& result = call.result().shape;
  if (source.size() < rank) throw Unsupported{"windows of such dimensions"};
  const std::size_t before = source.size() - rank;
  const Shape taps = spread(call.integers(1, "kernel_size"), rank, {});
  const Shape stride = spread(call.integers(2, "stride"), rank, taps);
  const Shape padding =
      spread(call.integers(3, "padding"), rank, Shape(rank, 0));
  Shape dilation(rank, 1);
  if (dilates) dilation = spread(call.integers(4, "dilation"), rank, dilation);
  std::vector<Windows> windows;
  for (std::size_t i = 0; i < rank; ++i) {
    windows.push_back({taps.at(i), stride[i], padding[i], dilation[i],
                       source[before + i], result[before + i]});
  }
  return windows;
}

// Functions of which a few more cost less than going through memory.
bool is_cheap(const Scalar& node) {
  static const std::set<std::string> kCheap = {
      "add",     "sub", "mul", "product", "neg", "abs", "relu",      "minimum",
      "maximum", "lt",  "le",  "select",  "gt",  "ge",  "leaky_relu"};
  return node.op != ScalarOp::call || kCheap.contains(node.function);
}

// What windows that overlap would compute again and again is kept instead.
Virtual materialized_if_expensive(Lowering& in, const Virtual& value) {
  const bool cheap =
      std::ranges::all_of(in.expressions_of(value),
                          [&](ExprId id) { return is_cheap(in.arena()[id]); });
  return cheap ? value : in.materialized(value);
}

// [before…, windows…, taps…]: what is in each window.
Virtual windowed(Lowering& in, const Virtual& value,
                 const std::vector<Windows>& windows, ExprId outside) {
  const std::size_t rank = windows.size();
  const std::size_t before = value.shape().size() - rank;
  Shape shape(value.shape().begin(), value.shape().begin() + before);
  for (const Windows& w : windows) shape.push_back(w.count);
  for (const Windows& w : windows) shape.push_back(w.taps);
  return Virtual(value.dtype(), shape, [=, &in](const Position& at) {
    Position inner(at.begin(), at.begin() + before);
    Guard guard;
    for (std::size_t i = 0; i < rank; ++i) {
      const Windows& w = windows[i];
      inner.push_back(w.first(at[before + i]) +
                      at[before + rank + i] * w.dilation);
      guard = in.both(guard, in.inside(inner.back(), w.source));
    }
    return in.read_if(value, inner, guard, outside);
  });
}

bool overlap(const std::vector<Windows>& windows) {
  return std::any_of(windows.begin(), windows.end(),
                     [](const Windows& w) { return w.overlap(); });
}

// Where nothing beats minus infinity, the place is the window's first in the
// source.
ExprId index_of(Lowering& in, const Windows& w, const Index& window,
                ExprId tap) {
  ScalarArena& arena = in.arena();
  const auto call = [&](const char* function, ExprId a, std::int64_t b) {
    return arena.call(function, DType::i64, {a, arena.integer(DType::i64, b)});
  };
  const ExprId input_index = arena.call(
      "add", DType::i64,
      {arena.position(w.first(window)), call("mul", tap, w.dilation)});
  const ExprId negative = arena.call(
      "lt", DType::boolean, {input_index, arena.integer(DType::i64, 0)});
  return arena.call(
      "select", DType::i64,
      {negative, call("remainder", input_index, w.dilation), input_index});
}

Rule max_pool(std::size_t rank, bool with_indices) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    Virtual value = call.tensor(0, "self");
    const auto windows = windows_of(call, rank, true);
    if (overlap(windows)) value = materialized_if_expensive(in, value);
    const Virtual all = windowed(in, value, windows, lowest(in, value.dtype()));
    const Shape dims = last_dims(all, rank);
    Values values = {in.reduce(Reduction::max, all, dims)[0]};
    if (with_indices) {
      values.push_back(flat_indices(
          in, index_of_maximum(in, all, dims), windows,
          [&in](const Windows& w, const Index& window, ExprId tap) {
            return index_of(in, w, window, tap);
          }));
    }
    return values;
  };
}

Rule average_pool(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (!is_float(dtype)) throw Unsupported{call.node().target};
    Virtual value = call.tensor(0, "self");
    const auto windows = windows_of(call, rank, false);
    if (overlap(windows)) value = materialized_if_expensive(in, value);
    const Virtual all =
        windowed(in, value, windows, in.arena().integer(dtype, 0));
    const Virtual sum = in.reduce(Reduction::sum, all, last_dims(all, rank))[0];
    const bool with_padding = call.flag(5, "count_include_pad", true);
    if (call.given(6, "divisor_override")) {
      const Virtual divisor =
          in.number(dtype, call.number(6, "divisor_override", 1));
      return {in.pointwise("div", dtype, {sum, divisor})};
    }
    const Virtual count =
        element_counts(in, dtype, sum.shape(), windows, with_padding);
    return {in.pointwise("div", dtype, {sum, count})};
  };
}

}  // namespace

void add_pool_rules(RuleTable& table) {
  table["max_pool1d"] = max_pool(1, false);
  table["max_pool2d_with_indices"] = max_pool(2, true);
  table["max_pool3d_with_indices"] = max_pool(3, true);
  table["avg_pool1d"] = average_pool(1);
  table["avg_pool2d"] = average_pool(2);
  table["avg_pool3d"] = average_pool(3);
}

}  // namespace weft
