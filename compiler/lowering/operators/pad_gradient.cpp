// Gradients of padding by what is there already: each element sums over the
// places that it was copied to, one dimension after the other.
#include <algorithm>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// One dimension: `size` elements became before + size + after; what is
/// negative was cut off.
struct Margins {
  std::size_t dim = 0;
  std::int64_t size = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;

  std::int64_t padded() const { return before + size + after; }
};

Shape with_size(Shape shape, std::size_t dim, std::int64_t size) {
  shape[dim] = size;
  return shape;
}

/// The elements from `start` on.
Virtual piece(const Virtual& value, std::size_t dim, std::int64_t start,
              std::int64_t size) {
  return Virtual(value.dtype(), with_size(value.shape(), dim, size),
                 [=](const Position& at) {
                   Position moved = at;
                   moved[dim] = at[dim] + start;
                   return value.at(moved);
                 });
}

/// The sum of the elements in [start, end), if there are any.
std::optional<Virtual> margin(Lowering& in, const Virtual& value,
                              std::size_t dim, std::int64_t start,
                              std::int64_t end) {
  if (end <= start) return std::nullopt;
  const Virtual all = piece(value, dim, start, end - start);
  if (end - start == 1) return all;
  const Shape dims = {static_cast<std::int64_t>(dim)};
  return in.restore(in.reduce(Reduction::sum, all, dims)[0], dims);
}

/// What is added up at one element, each where it is inside of the gradient.
class Sum {
 public:
  Sum(Lowering& in, DType dtype) : in_(in), dtype_(dtype) {}

  void add(const Virtual& value, const Position& at, Guard guard) {
    const ExprId zero = in_.arena().integer(dtype_, 0);
    if (in_.is_never(guard)) return;
    const ExprId term = in_.read_if(value, at, guard, zero);
    sum_ = sum_ < 0 ? term : in_.arena().call("add", dtype_, {sum_, term});
  }
  ExprId get() const {
    return sum_ < 0 ? in_.arena().integer(dtype_, 0) : sum_;
  }

 private:
  Lowering& in_;
  DType dtype_;
  ExprId sum_ = -1;
};

// The first and the last element were copied to all of their margin.
Virtual replicated(Lowering& in, const Virtual& gradient, const Margins& m) {
  const std::size_t dim = m.dim;
  const std::int64_t padded = m.padded();
  const auto low = margin(in, gradient, dim, 0, std::min(m.before, padded));
  const auto high = margin(
      in, gradient, dim,
      std::max<std::int64_t>(padded - std::max<std::int64_t>(m.after, 0), 0),
      padded);
  return Virtual(
      gradient.dtype(), with_size(gradient.shape(), dim, m.size),
      [=, &in](const Position& at) {
        Sum sum(in, gradient.dtype());
        Position there = at;
        const auto add = [&](const Virtual& value, Index destination) {
          there[dim] = std::move(destination);
          sum.add(value, there, in.inside(there[dim], value.shape()[dim]));
        };
        if (low) add(*low, at[dim]);
        add(gradient, at[dim] + m.before);
        if (high) add(*high, at[dim] - (m.size - 1));
        return sum.get();
      });
}

// Element s of the margin before is also at before - s, and one of the margin
// behind as far from the last element on its other side.
Virtual reflected(Lowering& in, const Virtual& gradient, const Margins& m) {
  const std::size_t dim = m.dim;
  return Virtual(gradient.dtype(), with_size(gradient.shape(), dim, m.size),
                 [=, &in](const Position& at) {
                   Sum sum(in, gradient.dtype());
                   const Index& here = at[dim];
                   const auto add = [&](Index destination, Guard guard) {
                     Position there = at;
                     there[dim] = std::move(destination);
                     sum.add(gradient, there,
                             in.both(guard, in.inside(there[dim], m.padded())));
                   };
                   if (m.before > 0) {
                     add(Index(m.before) - here, in.inside(here - 1, m.before));
                   }
                   add(here + m.before, std::nullopt);
                   if (m.after > 0) {
                     const Index from_last = Index(m.size - 1) - here;
                     add(from_last + (m.size - 1 + m.before),
                         in.inside(from_last - 1, m.after));
                   }
                   return sum.get();
                 });
}

using Turned = Virtual (*)(Lowering&, const Virtual&, const Margins&);

// Pairs of margins, of the last dimension first.
Rule pad_gradient(Turned turned) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Shape& source = call.result().shape;
    Virtual value = in.cast(call.tensor(0, "grad_output"), call.result().dtype);
    const Shape margins = call.integers(2, "padding");
    if (value.shape().size() != source.size() ||
        margins.size() > 2 * source.size()) {
      throw Unsupported{"gradients of margins of such dimensions"};
    }
    for (std::size_t i = 0; i < margins.size() / 2; ++i) {
      const std::size_t dim = source.size() - 1 - i;
      value = turned(in, value,
                     {dim, source[dim], margins[2 * i], margins[2 * i + 1]});
    }
    return {value};
  };
}

}  // namespace

void add_pad_gradient_rules(RuleTable& table) {
  for (const char* rank : {"1d", "2d", "3d"}) {
    const std::string name = std::string("_pad") + rank + "_backward";
    table["replication" + name] = pad_gradient(replicated);
    table["reflection" + name] = pad_gradient(reflected);
  }
}

}  // namespace weft
