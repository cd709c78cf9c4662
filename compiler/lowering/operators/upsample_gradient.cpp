// Gradients of interpolation: each element of the source sums over the outputs
// that it was used for. Where PyTorch's float arithmetic puts an output
// elsewhere than the ratio of the sizes does, it stays PyTorch's.
#include <algorithm>
#include <cmath>

#include "compiler/lowering/operators/spans.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// One dimension, from `source` elements to `count`.
struct Resized {
  std::int64_t source = 1;
  std::int64_t count = 1;
  float scale = 1;  ///< elements of the source an output, as PyTorch has it
};

constexpr std::int64_t kExtentMax = 1 << 24;  // float counts so far

/// `at`: where the factors stand in the call, one for each dimension.
std::vector<Resized> resized(const Call& call, std::size_t rank, std::size_t at,
                             bool align) {
  const Shape counts = call.tensor(0, "grad_output").shape();
  const Shape& source = call.result().shape;
  if (source.size() != rank + 2 || counts.size() != rank + 2) {
    throw Unsupported{call.node().target + " of such dimensions"};
  }
  static const std::vector<std::vector<const char*>> kNames = {
      {"scales"},
      {"scales_h", "scales_w"},
      {"scales_d", "scales_h", "scales_w"}};
  std::vector<Resized> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    Resized dim{source[2 + i], counts[2 + i], 1};
    if (dim.source > kExtentMax || dim.count > kExtentMax) {
      throw Unsupported{call.node().target + " of such extents"};
    }
    const double factor = call.number(at + i, kNames[rank - 1][i], 0);
    if (align) {
      dim.scale = dim.count > 1 ? static_cast<float>(dim.source - 1) /
                                      static_cast<float>(dim.count - 1)
                                : 0;
    } else if (factor > 0) {
      dim.scale = static_cast<float>(1 / factor);
    } else {
      dim.scale =
          static_cast<float>(dim.source) / static_cast<float>(dim.count);
    }
    dims.push_back(dim);
  }
  return dims;
}

/// The element that an output is of; `exact`: the one at its middle.
std::int64_t nearest_element(const Resized& r, std::int64_t output,
                             bool exact) {
  if (!exact && r.count == r.source) return output;
  if (!exact && r.count == 2 * r.source) return output / 2;
  const float middle = static_cast<float>(output) + (exact ? 0.5F : 0.0F);
  return std::min(static_cast<std::int64_t>(std::floor(middle * r.scale)),
                  r.source - 1);
}

/// The outputs of each element.
Span nearest_outputs(const Resized& r, bool exact) {
  // The least o with o · source >= s · count, or (2 o + 1) · source >=
  // 2 s · count.
  const std::int64_t twice = exact ? 2 : 1;
  const std::int64_t above = r.source - 1;
  const auto first = [=](const Index& element) {
    return floor_div(element * (twice * r.count) + above, twice * r.source);
  };
  Span span(r.source, r.count, first,
            [=](const Index& element) { return first(element + 1); });
  for (std::int64_t s = 0; s < r.source; ++s) {
    for (std::int64_t o = span.first(s).offset(); o < span.end(s).offset();
         ++o) {
      if (o < 0 || o >= r.count || nearest_element(r, o, exact) != s) {
        throw Unsupported{"outputs that float arithmetic puts elsewhere"};
      }
    }
  }
  if (span.first(0).offset() != 0 || span.end(r.source - 1).offset() != r.count)
    throw Unsupported{"outputs of no element"};
  return span;
}

Rule nearest(std::size_t rank, bool exact) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    const Virtual gradient = in.cast(call.tensor(0, "grad_output"), dtype);
    std::vector<Span> spans;
    for (const Resized& dim : resized(call, rank, 3, false)) {
      spans.push_back(nearest_outputs(dim, exact));
    }
    return {sum_of_shares(
        dtype, dims_before(call.result().shape, rank), spans, in,
        [=, &in](const Position&, const Position& output, Guard guard) {
          return in.read_if(gradient, output, guard,
                            in.arena().integer(dtype, 0));
        })};
  };
}

/// Between which two elements an output lies, and how far from the first.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

Between between(const Resized& r, std::int64_t output, bool align) {
  if (r.count == r.source) return {output, output};
  const float middle = static_cast<float>(output) + 0.5F;
  const float coordinate = align ? r.scale * static_cast<float>(output)
                                 : std::max(r.scale * middle - 0.5F, 0.0F);
  const std::int64_t low =
      std::min(static_cast<std::int64_t>(coordinate), r.source - 1);
  return {low, std::min(low + 1, r.source - 1)};
}

/// Outputs from the first to the last that an element may have a part of, with
/// one more on both sides, as a fused product may round an output over the
/// edge between two elements.
Span linear_outputs(const Resized& r, bool align) {
  std::vector<std::int64_t> least(r.source, r.count);
  std::vector<std::int64_t> most(r.source, -1);
  for (std::int64_t o = 0; o < r.count; ++o) {
    const Between there = between(r, o, align);
    for (const std::int64_t s : {there.low, there.high}) {
      least[s] = std::min(least[s], o - 1);
      most[s] = std::max(most[s], o + 1);
    }
  }
  std::int64_t back = 0;
  std::int64_t taps = 1;
  const auto line = [&](std::int64_t s) { return s * r.count / r.source; };
  for (std::int64_t s = 0; s < r.source; ++s) {
    if (most[s] >= 0) back = std::max(back, line(s) - least[s]);
  }
  for (std::int64_t s = 0; s < r.source; ++s) {
    if (most[s] >= 0) taps = std::max(taps, most[s] - (line(s) - back) + 1);
  }
  // Where a given factor is far from the ratio of the sizes.
  if (taps > 4 * (r.count / r.source + 2)) {
    throw Unsupported{"outputs far from their elements"};
  }
  const auto first = [count = r.count, source = r.source,
                      back](const Index& element) {
    return floor_div(element * count, source) - back;
  };
  return Span(r.source, r.count, first,
              [=](const Index& element) { return first(element) + taps; });
}

/// Of one dimension, at one output: whether it lies between this element and
/// its neighbour, and this element's weight; as the first of both or as the
/// second.
struct Weight {
  ExprId is_here;
  ExprId weight;
};

class Weights {
 public:
  Weights(Lowering& in, DType dtype, bool align)
      : in_(in), dtype_(dtype), align_(align) {}

  std::vector<Weight> of(const Resized& r, const Index& element,
                         const Index& output) const {
    const ExprId here = float_of(element);
    const ExprId last = number(static_cast<double>(r.source - 1));
    ExprId coordinate = float_of(output);
    if (r.count != r.source) {
      const ExprId scale = number(r.scale);
      if (align_) {
        coordinate = call("product", {scale, coordinate});
      } else {
        coordinate = call(
            "sub",
            {call("product", {scale, call("add", {coordinate, number(0.5)})}),
             number(0.5)});
        coordinate = call("maximum", {coordinate, number(0)});
      }
    }
    const ExprId low = call("minimum", {call("floor", {coordinate}), last});
    const ExprId high = call("minimum", {call("add", {low, number(1)}), last});
    const ExprId part =
        call("minimum",
             {call("maximum", {call("sub", {coordinate, low}), number(0)}),
              number(1)});
    return {{same(low, here), call("sub", {number(1), part})},
            {same(high, here), part}};
  }

 private:
  ExprId number(double value) const {
    return in_.arena().constant(dtype_, value);
  }
  ExprId float_of(const Index& index) const {
    return in_.arena().cast(dtype_, in_.arena().position(index));
  }
  ExprId call(const char* function, std::vector<ExprId> arguments) const {
    return in_.arena().call(function, dtype_, std::move(arguments));
  }
  ExprId same(ExprId a, ExprId b) const {
    return in_.arena().call("eq", DType::boolean, {a, b});
  }

  Lowering& in_;
  DType dtype_;
  bool align_;
};

// An output gives each of the elements around it a part, in PyTorch's
// own arithmetic: also a part of 0, which of an infinite gradient is no number.
Rule linear(std::size_t rank) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (dtype != DType::f32) throw Unsupported{"interpolation in such a type"};
    const Virtual gradient = in.cast(call.tensor(0, "grad_output"), dtype);
    const bool align = call.flag(3, "align_corners", false);
    const auto dims = resized(call, rank, 4, align);
    std::vector<Span> spans;
    for (const Resized& dim : dims) {
      spans.push_back(linear_outputs(dim, align));
    }
    const Weights weights(in, dtype, align);
    return {sum_of_shares(
        dtype, dims_before(call.result().shape, rank), spans, in,
        [=, &in](const Position& element, const Position& output, Guard guard) {
          ScalarArena& arena = in.arena();
          const ExprId zero = arena.integer(dtype, 0);
          Guard inside = guard;
          for (std::size_t i = 0; i < rank; ++i) {
            inside = in.both(inside, in.inside(output[2 + i], dims[i].count));
          }
          const ExprId given = in.read_if(gradient, output, inside, zero);
          std::vector<Weight> ways = {{-1, -1}};
          for (std::size_t i = 0; i < rank; ++i) {
            std::vector<Weight> more;
            for (const Weight& way : ways) {
              for (const Weight& next :
                   weights.of(dims[i], element[2 + i], output[2 + i])) {
                if (way.weight < 0) {
                  more.push_back(next);
                  continue;
                }
                more.push_back(
                    {arena.call("logical_and", DType::boolean,
                                {way.is_here, next.is_here}),
                     arena.call("product", dtype, {way.weight, next.weight})});
              }
            }
            ways = std::move(more);
          }
          ExprId sum = -1;
          for (const Weight& way : ways) {
            const Guard is_here = in.both(inside, way.is_here);
            const ExprId term = arena.call(
                "select", dtype,
                {*is_here, arena.call("product", dtype, {way.weight, given}),
                 zero});
            sum = sum < 0 ? term : arena.call("add", dtype, {sum, term});
          }
          return sum;
        })};
  };
}

}  // namespace

void add_upsample_gradient_rules(RuleTable& table) {
  const std::vector<std::string> ranks = {"1d", "2d", "3d"};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string name = ranks[i] + "_backward";
    table["upsample_nearest" + name] = nearest(i + 1, false);
    table["_upsample_nearest_exact" + name] = nearest(i + 1, true);
  }
  table["upsample_linear1d_backward"] = linear(1);
  table["upsample_bilinear2d_backward"] = linear(2);
  table["upsample_trilinear3d_backward"] = linear(3);
}

}  // namespace weft
