// Pooling into a given number of windows, as even as they can be.
#include <algorithm>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

// Windows from floor(o · source / count) to the next one's, rounded up.
struct Adaptive {
  std::int64_t source = 1;
  std::int64_t count = 1;

  Index first(const Index& window) const {
    return floor_div(window * source, count);
  }
  Index end(const Index& window) const {
    return floor_div((window + 1) * source + (count - 1), count);
  }
  std::int64_t taps() const {
    std::int64_t most = 1;
    for (std::int64_t o = 0; o < count; ++o) {
      most = std::max(most, end(o).offset() - first(o).offset());
    }
    return most;
  }
  bool even() const { return source % count == 0; }
};

std::vector<Adaptive> adaptive_windows(const Call& call, std::size_t rank) {
  const Shape source = call.tensor(0, "self").shape();
  const Shape& result = call.result().shape;
  std::vector<Adaptive> windows;
  for (std::size_t i = source.size() - rank; i < source.size(); ++i) {
    windows.push_back({source[i], result[i]});
  }
  return windows;
}

Virtual adaptive_windowed(Lowering& in, const Virtual& value,
                          const std::vector<Adaptive>& windows,
                          ExprId outside) {
  const std::size_t rank = windows.size();
  const std::size_t before = value.shape().size() - rank;
  Shape shape(value.shape().begin(), value.shape().begin() + before);
  for (const Adaptive& w : windows) shape.push_back(w.count);
  for (const Adaptive& w : windows) shape.push_back(w.taps());
  return Virtual(value.dtype(), shape, [=, &in](const Position& at) {
    Position inner(at.begin(), at.begin() + before);
    Guard guard;
    for (std::size_t i = 0; i < rank; ++i) {
      const Adaptive& w = windows[i];
      inner.push_back(w.first(at[before + i]) + at[before + rank + i]);
      if (w.even()) continue;
      guard = in.both(
          guard, in.arena().call("lt", DType::boolean,
                                 {in.arena().position(inner.back()),
                                  in.arena().position(w.end(at[before + i]))}));
    }
    return in.read_if(value, inner, guard, outside);
  });
}

Rule adaptive_average(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (!is_float(dtype)) throw Unsupported{call.node().target};
    const auto windows = adaptive_windows(call, rank);
    const Virtual all = adaptive_windowed(in, call.tensor(0, "self"), windows,
                                          in.arena().integer(dtype, 0));
    Virtual result = in.fold(Fold::sum, all, last_dims(all, rank))[0];
    const std::size_t before = result.shape().size() - rank;
    for (std::size_t i = 0; i < rank; ++i) {
      const Adaptive w = windows[i];
      const Virtual count(dtype, result.shape(), [=, &in](const Position& at) {
        const Index& window = at[before + i];
        return in.arena().cast(
            dtype,
            in.arena().position(w.even() ? Index(w.source / w.count)
                                         : w.end(window) - w.first(window)));
      });
      result = in.pointwise("div", dtype, {result, count});
    }
    return {result};
  };
}

// The values; where they stood is left to the framework.
Rule adaptive_max(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = call.tensor(0, "self");
    const Virtual all = adaptive_windowed(
        in, value, adaptive_windows(call, rank), lowest(in, value.dtype()));
    return {in.fold(Fold::max, all, last_dims(all, rank))[0], std::nullopt};
  };
}

}  // namespace

void add_adaptive_pool_rules(RuleTable& table) {
  table["_adaptive_avg_pool2d"] = adaptive_average(2);
  table["_adaptive_avg_pool3d"] = adaptive_average(3);
  table["adaptive_max_pool2d"] = adaptive_max(2);
  table["adaptive_max_pool3d"] = adaptive_max(3);
}

}  // namespace weft
