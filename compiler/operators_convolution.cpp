// Convolutions of one to three dimensions, plain and transposed, as folds of
// the product of a guarded read of the input and a read of the weight.
#include <numeric>

#include "compiler/operators.hpp"

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
  return c;
}

// A fold's domain: the result's dimensions, then channels and taps.
//   batch, group, output, space…, input, taps…
Virtual plain(Lowering& in, const Convolution& c) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  Shape folded = {static_cast<std::int64_t>(shape.size())};
  shape.push_back(c.inputs);
  for (std::size_t i = 0; i < rank; ++i) {
    folded.push_back(static_cast<std::int64_t>(shape.size()));
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
    const ExprId made =
        in.arena().call("mul", c.input.dtype(), {read, c.weight.at(of_weight)});
    // A depthwise one leaves out what would be padding, as the framework's own
    // kernels for it do: there an infinite weight makes no NaN.
    if (!guard || c.inputs > 1 || c.groups == 1) return made;
    return in.arena().call("select", c.input.dtype(), {*guard, made, zero});
  });
  return in.fold(Fold::sum, product, folded)[0];
}

// One dimension of a transposed convolution: which tap stands at a step of the
// fold, and which input it meets.
struct Meeting {
  Index tap;
  Index input;
  Guard guard;
};

// An offset that makes the value never negative, in whole strides.
std::int64_t strides_above(const Index& value, std::int64_t stride) {
  const std::int64_t least = value.range().first;
  return least >= 0 ? 0 : (-least + stride - 1) / stride;
}

// Output o meets input i with tap k where o + padding = i · stride + k ·
// dilation. Every tap is tried.
Meeting try_tap(Lowering& in, const Convolution& c, std::size_t i,
                const Index& output, const Index& tap) {
  const std::int64_t stride = c.stride[i];
  const Index from = output + c.padding[i] - tap * c.dilation[i];
  const std::int64_t above = strides_above(from, stride);
  const Index raised = from + above * stride;
  Meeting meeting{tap, floor_div(raised, stride) - above, {}};
  const Index rest = floor_mod(raised, stride);
  if (!rest.is_constant() || rest.offset() != 0) {
    meeting.guard = in.arena().call(
        "eq", DType::boolean,
        {in.arena().position(rest), in.arena().integer(DType::i64, 0)});
  }
  return meeting;
}

// The number that undoes a factor among the remainders by `modulus`.
std::int64_t inverse(std::int64_t factor, std::int64_t modulus) {
  std::int64_t result = 0;
  while (result * factor % modulus != 1 % modulus) ++result;
  return result;
}

// The output o = stride · block + phase meets only the taps first + stride ·
// step, where first depends on the phase alone.
Meeting meet_tap(Lowering& in, const Convolution& c, std::size_t i,
                 const Index& block, const Index& phase, const Index& step) {
  const std::int64_t stride = c.stride[i];
  const std::int64_t back = inverse(c.dilation[i], stride);
  const Index first = floor_mod((phase + c.padding[i]) * back, stride);
  const Index from = phase + c.padding[i] - first * c.dilation[i];
  const std::int64_t above = strides_above(from, stride);
  Meeting meeting;
  meeting.tap = first + step * stride;
  meeting.input = block - step * c.dilation[i] - above +
                  floor_div(from + above * stride, stride);
  meeting.guard = in.inside(meeting.tap, c.taps(i));
  return meeting;
}

// How one dimension is walked: blocks of phases, or every output by itself.
struct Walk {
  bool phases = false;
  std::int64_t blocks = 1;
  std::int64_t count = 1;  ///< phases
  std::int64_t steps = 1;  ///< of the fold
};

Walk walk_of(const Convolution& c, std::size_t i, bool phases) {
  const std::int64_t stride = c.stride[i];
  if (!phases || stride == 1 || std::gcd(stride, c.dilation[i]) != 1) {
    return {false, c.extents[i], 1, c.taps(i)};
  }
  return {true, (c.extents[i] + stride - 1) / stride, stride,
          (c.taps(i) + stride - 1) / stride};
}

//   batch, group, output, phases…, blocks…, input, steps…
Virtual sums_of_transposed(Lowering& in, const Convolution& c,
                           const std::vector<Walk>& walks) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  for (const Walk& walk : walks) shape.push_back(walk.count);
  for (const Walk& walk : walks) shape.push_back(walk.blocks);
  Shape folded;
  for (std::size_t i = 0; i <= rank; ++i) {
    folded.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(i == 0 ? c.inputs : walks[i - 1].steps);
  }
  const DType dtype = c.input.dtype();
  const Virtual product(dtype, shape, [=, &in](const Position& at) {
    const Index channel = at[1] * c.inputs + at[3 + 2 * rank];
    Position of_input = {at[0], channel};
    Position of_weight = {channel, at[2]};
    Guard meets;
    Guard has_tap;
    for (std::size_t i = 0; i < rank; ++i) {
      const Index& phase = at[3 + i];
      const Index& block = at[3 + rank + i];
      const Index& step = at[4 + 2 * rank + i];
      const Meeting meeting = walks[i].phases
                                  ? meet_tap(in, c, i, block, phase, step)
                                  : try_tap(in, c, i, block, step);
      of_input.push_back(meeting.input);
      of_weight.push_back(meeting.tap);
      if (walks[i].phases) has_tap = in.both(has_tap, meeting.guard);
      meets = in.both(meets, meeting.guard);
      meets = in.both(meets, in.inside(meeting.input, c.input.shape()[i + 2]));
    }
    const ExprId zero = in.arena().integer(dtype, 0);
    return in.arena().call("mul", dtype,
                           {in.read_if(c.input, of_input, meets, zero),
                            in.read_if(c.weight, of_weight, has_tap, zero)});
  });
  return in.fold(Fold::sum, product, folded)[0];
}

Virtual transposed(Lowering& in, const Convolution& c) {
  const std::size_t rank = c.rank();
  std::vector<Walk> walks;
  for (std::size_t i = 0; i < rank; ++i) {
    walks.push_back(walk_of(c, i, in.options().transposed_phases));
  }
  const Virtual sums = sums_of_transposed(in, c, walks);
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  return Virtual(sums.dtype(), shape, [=](const Position& at) {
    Position inner(at.begin(), at.begin() + 3);
    for (std::size_t i = 0; i < rank; ++i) {
      inner.push_back(floor_mod(at[3 + i], walks[i].count));
    }
    for (std::size_t i = 0; i < rank; ++i) {
      inner.push_back(floor_div(at[3 + i], walks[i].count));
    }
    return sums.at(inner);
  });
}

Values convolution(const Call& call) {
  Lowering& in = call.in();
  const bool is_transposed = call.flag(6, "transposed", false);
  const Convolution c = read(call, is_transposed);
  const bool is_depthwise = c.inputs == 1 && c.groups > 1 && !is_transposed;
  if (!(is_depthwise && in.options().depthwise)) check_contractions(call);
  Virtual result = is_transposed ? transposed(in, c) : plain(in, c);
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
