// Convolutions of one to three dimensions, plain and transposed, as reductions
// of the product of a guarded read of the input and a read of the weight.
#include <numeric>
#include <set>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

struct Convolution {
  Virtual input;   ///< [batch, groups · inputs, …]
  Virtual weight;  ///< [groups · outputs, inputs, taps…], or for a transposed
                   ///< one [groups · inputs, outputs, taps…]
  Shape stride;
  Shape padding;
  Shape dilation;
  std::int64_t groups = 1;
  std::int64_t inputs = 1;   ///< channels of one group
  std::int64_t outputs = 1;  ///< channels of one group
  Shape extents;             ///< of the result's space

  std::size_t rank() const { return stride.size(); }
  std::int64_t taps(std::size_t i) const { return weight.shape()[i + 2]; }
};

Shape per_dimension(const Call& call, std::size_t position, const char* name,
                    std::size_t rank) {
  Shape values = call.integers(position, name);
  if (values.size() == 1) values.assign(rank, values[0]);
  if (values.size() != rank)
    throw Unsupported{std::string(name) + " of convolution"};
  return values;
}

Convolution read(const Call& call, bool transposed) {
  Convolution c;
  const DType dtype = call.result().dtype;
  Lowering& in = call.in();
  c.input = in.factor(in.cast(call.tensor(0, "input"), dtype));
  c.weight = in.factor(in.cast(call.tensor(1, "weight"), dtype));
  const std::size_t rank = c.weight.shape().size() - 2;
  if (c.weight.shape().size() < 3 || c.input.shape().size() != rank + 2) {
    throw Unsupported{"a convolution without a batch"};
  }
  c.stride = per_dimension(call, 3, "stride", rank);
  c.padding = per_dimension(call, 4, "padding", rank);
  c.dilation = per_dimension(call, 5, "dilation", rank);
  c.groups = call.integer(8, "groups", 1);
  c.inputs = c.input.shape()[1] / c.groups;
  c.outputs = call.result().shape[1] / c.groups;
  if (!transposed && c.weight.shape()[1] != c.inputs) {
    throw Unsupported{"a convolution of such groups"};
  }
  c.extents.assign(call.result().shape.begin() + 2, call.result().shape.end());
  double windows = 1;  // that an element is in
  for (std::size_t i = 0; i < rank; ++i) {
    windows *= static_cast<double>(c.taps(i)) /
               static_cast<double>(transposed ? 1 : c.stride[i]);
  }
  c.input = in.materialized_for_windows(c.input, windows, rank);
  return c;
}

// A reduction's domain: the result's dimensions, then channels and taps.
//   batch, group, output, space…, input, taps…
Virtual plain(Lowering& in, const Convolution& c) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  Shape reduced = {static_cast<std::int64_t>(shape.size())};
  shape.push_back(c.inputs);
  for (std::size_t i = 0; i < rank; ++i) {
    reduced.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(c.taps(i));
  }
  const Virtual product(c.input.dtype(), shape, [=, &in](const Position& at) {
    const Index& channel = at[3 + rank];
    Position of_input = {at[0], at[1] * c.inputs + channel};
    Position of_weight = {at[1] * c.outputs + at[2], channel};
    for (std::size_t i = 0; i < rank; ++i) {
      const Index& tap = at[4 + rank + i];
      of_input.push_back(at[3 + i] * c.stride[i] + tap * c.dilation[i] -
                         c.padding[i]);
      of_weight.push_back(tap);
    }
    const ExprId zero = in.arena().integer(c.input.dtype(), 0);
    const Guard guard = in.inside(of_input, c.input.shape());
    const ExprId read = in.read_if(c.input, of_input, guard, zero);
    const ExprId term = in.arena().call("product", c.input.dtype(),
                                        {read, c.weight.at(of_weight)});
    // A depthwise one leaves out what would be padding, as PyTorch's own
    // kernels for it do: there an infinite weight makes no NaN.
    if (!guard || c.inputs > 1 || c.groups == 1) return term;
    return in.arena().call("select", c.input.dtype(), {*guard, term, zero});
  });
  return in.reduce(Reduction::sum, product, reduced)[0];
}

// One dimension of a transposed convolution: output stride · block + phase
// meets the inputs block + first + every · step.
struct Walk {
  std::int64_t blocks = 1;
  std::int64_t first = 0;
  std::int64_t every = 1;
  std::int64_t steps = 1;
};

// Output o meets input i with tap k where o + padding = i · stride + k ·
// dilation. The steps are those that any phase meets an input in.
Walk walk_of(const Convolution& c, std::size_t i) {
  const std::int64_t stride = c.stride[i];
  std::set<std::int64_t> met;
  for (std::int64_t phase = 0; phase < stride; ++phase) {
    for (std::int64_t tap = 0; tap < c.taps(i); ++tap) {
      const std::int64_t at = phase + c.padding[i] - tap * c.dilation[i];
      if (at % stride == 0) met.insert(at / stride);
    }
  }
  Walk walk;
  walk.blocks = (c.extents[i] + stride - 1) / stride;
  walk.first = *met.begin();
  walk.every = 0;
  for (const std::int64_t at : met) {
    walk.every = std::gcd(walk.every, at - walk.first);
  }
  walk.every = std::max<std::int64_t>(walk.every, 1);
  walk.steps = (*met.rbegin() - walk.first) / walk.every + 1;
  return walk;
}

Guard is_zero(Lowering& in, const Index& index) {
  if (index.is_constant() && index.offset() == 0) return {};
  return in.arena().call(
      "eq", DType::boolean,
      {in.arena().position(index), in.arena().integer(DType::i64, 0)});
}

// The tap that a phase meets the step's input with, and whether there is one.
std::pair<Index, Guard> tap_at(Lowering& in, const Convolution& c,
                               std::size_t i, const Walk& walk,
                               const Index& phase, const Index& step) {
  const std::int64_t dilation = c.dilation[i];
  Index taps =
      phase + c.padding[i] - (step * walk.every + walk.first) * c.stride[i];
  const std::int64_t least = taps.range().first;
  // In whole dilations, so that the quotient is never one of less than 0.
  const std::int64_t above = least < 0 ? (dilation - 1 - least) / dilation : 0;
  taps = taps + above * dilation;
  const Index tap = floor_div(taps, dilation) - above;
  return {tap, in.both(in.inside(tap, c.taps(i)),
                       is_zero(in, floor_mod(taps, dilation)))};
}

// The inputs do not know the phases, and the weights not the blocks: a product
// of matrices, whose result lies as the outputs do. (Sub-pixel convolution.)
//   batch, group, output, (block, phase)…, input, steps…
Virtual sums_of_transposed(Lowering& in, const Convolution& c,
                           const std::vector<Walk>& walks) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  for (std::size_t i = 0; i < rank; ++i) {
    shape.insert(shape.end(), {walks[i].blocks, c.stride[i]});
  }
  Shape reduced = {static_cast<std::int64_t>(shape.size())};
  shape.push_back(c.inputs);
  for (const Walk& walk : walks) {
    reduced.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(walk.steps);
  }
  const DType dtype = c.input.dtype();
  const Virtual product(dtype, shape, [=, &in](const Position& at) {
    const Index channel = at[1] * c.inputs + at[3 + 2 * rank];
    Position of_input = {at[0], channel};
    Position of_weight = {channel, at[2]};
    Guard has_tap;
    for (std::size_t i = 0; i < rank; ++i) {
      const Index& step = at[4 + 2 * rank + i];
      const auto [tap, guard] = tap_at(in, c, i, walks[i], at[4 + 2 * i], step);
      of_input.push_back(at[3 + 2 * i] + step * walks[i].every +
                         walks[i].first);
      of_weight.push_back(tap);
      has_tap = in.both(has_tap, guard);
    }
    const Guard has_input = in.inside(of_input, c.input.shape());
    const Guard meets = in.both(has_input, has_tap);
    const ExprId zero = in.arena().integer(dtype, 0);
    const ExprId term =
        in.arena().call("product", dtype,
                        {in.read_if(c.input, of_input, has_input, zero),
                         in.read_if(c.weight, of_weight, has_tap, zero)});
    // What does not meet is no term: an infinity makes no nan of it.
    if (!meets) return term;
    return in.arena().call("select", dtype, {*meets, term, zero});
  });
  return in.reduce(Reduction::sum, product, reduced)[0];
}

// Where stride and dilation share a factor, outputs that meet an input lie so
// many apart.
std::int64_t spacing(const Convolution& c, std::size_t i) {
  return std::gcd(c.stride[i], c.dilation[i]);
}

// The convolution of those outputs alone, of which there may be few: `first`
// and then every so many of one dimension.
Convolution of_met(Convolution c, std::size_t i, std::int64_t first) {
  const std::int64_t every = spacing(c, i);
  c.stride[i] /= every;
  c.dilation[i] /= every;
  c.padding[i] = (c.padding[i] + first) / every;
  c.extents[i] =
      std::max<std::int64_t>(c.extents[i] - first - 1, 0) / every + 1;
  return c;
}

Virtual transposed(Lowering& in, const Convolution& c) {
  const std::size_t rank = c.rank();
  std::vector<Walk> walks;
  for (std::size_t i = 0; i < rank; ++i) walks.push_back(walk_of(c, i));
  const Virtual sums = sums_of_transposed(in, c, walks);
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  return Virtual(sums.dtype(), shape, [=](const Position& at) {
    Position inner(at.begin(), at.begin() + 3);
    for (std::size_t i = 0; i < rank; ++i) {
      inner.push_back(floor_div(at[3 + i], c.stride[i]));
      inner.push_back(floor_mod(at[3 + i], c.stride[i]));
    }
    return sums.at(inner);
  });
}

// The same by way of the outputs that meet an input, zeros between them. It
// costs a pass over the result, and pays where these are few.
Virtual sparse_transposed(Lowering& in, const Convolution& c) {
  Convolution met = c;
  Shape first;
  for (std::size_t i = 0; i < c.rank(); ++i) {
    const std::int64_t every = spacing(c, i);
    first.push_back((every - c.padding[i] % every) % every);
    met = of_met(met, i, first[i]);
  }
  const Virtual sums = transposed(in, met);
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  return Virtual(sums.dtype(), shape, [=, &in](const Position& at) {
    Position inner(at.begin(), at.begin() + 3);
    Guard is_met;
    for (std::size_t i = 0; i < c.rank(); ++i) {
      const std::int64_t every = spacing(c, i);
      const std::int64_t raised = first[i] > 0 ? 1 : 0;  // for the quotient
      const Index from = at[3 + i] - first[i] + raised * every;
      inner.push_back(floor_div(from, every) - raised);
      is_met = in.both(is_met, is_zero(in, floor_mod(from, every)));
    }
    return in.read_if(sums, inner, is_met, in.arena().integer(sums.dtype(), 0));
  });
}

Virtual any_transposed(Lowering& in, const Convolution& c) {
  std::int64_t of = 1;
  for (std::size_t i = 0; i < c.rank(); ++i) of *= spacing(c, i);
  return of >= in.options().choices.sparse_outputs_min
             ? sparse_transposed(in, c)
             : transposed(in, c);
}

Values convolution(const Call& call) {
  Lowering& in = call.in();
  const bool is_transposed = call.flag(6, "transposed", false);
  const Convolution c = read(call, is_transposed);
  const bool is_depthwise = c.inputs == 1 && c.groups > 1 && !is_transposed;
  if (!(is_depthwise && in.options().depthwise)) check_contractions(call);
  Virtual result = is_transposed ? any_transposed(in, c) : plain(in, c);
  result = in.reshape(result, call.result().shape);
  if (!call.given(2, "bias")) return {result};
  const DType dtype = call.result().dtype;
  Shape beside(c.rank() + 1, 1);
  beside[0] = c.groups * c.outputs;
  const Virtual bias =
      in.reshape(in.cast(call.tensor(2, "bias"), dtype), beside);
  return {in.pointwise("add", dtype, {result, bias})};
}

}  // namespace

void add_convolution_rules(RuleTable& table) {
  table["convolution"] = convolution;
}

}  // namespace weft
