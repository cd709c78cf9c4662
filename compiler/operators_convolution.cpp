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

// Where stride and dilation of a transposed convolution share a factor, the
// outputs that meet an input lie `every` so many apart, and all others are 0.
struct Met {
  std::int64_t first = 0;
  std::int64_t every = 1;
};

// Makes of one dimension a convolution of the outputs that are met alone.
Met keep_met(Convolution& c, std::size_t i) {
  Met met;
  met.every = std::gcd(c.stride[i], c.dilation[i]);
  met.first = (met.every - c.padding[i] % met.every) % met.every;
  c.stride[i] /= met.every;
  c.dilation[i] /= met.every;
  c.padding[i] = (c.padding[i] + met.first) / met.every;
  const std::int64_t least = met.first + 1;  // none met: one that is not read
  c.extents[i] = (std::max(c.extents[i], least) - least) / met.every + 1;
  return met;
}

// One dimension of a transposed convolution: which tap stands at a step of the
// fold, if there is one, and which input it meets.
struct Meeting {
  Index tap;
  Index input;
  Guard has_tap;
};

// An offset that makes the value never negative, in whole strides.
std::int64_t strides_above(const Index& value, std::int64_t stride) {
  const std::int64_t least = value.range().first;
  return least >= 0 ? 0 : (-least + stride - 1) / stride;
}

// The number that undoes a factor among the remainders by `modulus`.
std::int64_t inverse(std::int64_t factor, std::int64_t modulus) {
  std::int64_t result = 0;
  while (result * factor % modulus != 1 % modulus) ++result;
  return result;
}

// Output o meets input i with tap k where o + padding = i · stride + k ·
// dilation. So o = stride · block + phase meets only the taps first + stride ·
// step, where first depends on the phase alone.
Meeting meet(Lowering& in, const Convolution& c, std::size_t i,
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
  meeting.has_tap = in.inside(meeting.tap, c.taps(i));
  return meeting;
}

//   batch, group, output, phases…, blocks…, input, steps…
Virtual sums_of_transposed(Lowering& in, const Convolution& c) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.stride.begin(), c.stride.end());
  for (std::size_t i = 0; i < rank; ++i) {
    shape.push_back((c.extents[i] + c.stride[i] - 1) / c.stride[i]);
  }
  Shape folded = {static_cast<std::int64_t>(shape.size())};
  shape.push_back(c.inputs);
  for (std::size_t i = 0; i < rank; ++i) {
    folded.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back((c.taps(i) + c.stride[i] - 1) / c.stride[i]);
  }
  const DType dtype = c.input.dtype();
  const Virtual product(dtype, shape, [=, &in](const Position& at) {
    const Index channel = at[1] * c.inputs + at[3 + 2 * rank];
    Position of_input = {at[0], channel};
    Position of_weight = {channel, at[2]};
    Guard meets;
    Guard has_tap;
    for (std::size_t i = 0; i < rank; ++i) {
      const Meeting meeting =
          meet(in, c, i, at[3 + rank + i], at[3 + i], at[4 + 2 * rank + i]);
      of_input.push_back(meeting.input);
      of_weight.push_back(meeting.tap);
      has_tap = in.both(has_tap, meeting.has_tap);
      meets = in.both(meets, meeting.has_tap);
      meets = in.both(meets, in.inside(meeting.input, c.input.shape()[i + 2]));
    }
    const ExprId zero = in.arena().integer(dtype, 0);
    const ExprId made =
        in.arena().call("mul", dtype,
                        {in.read_if(c.input, of_input, meets, zero),
                         in.read_if(c.weight, of_weight, has_tap, zero)});
    // What meets no input is no term: an infinite weight makes no nan there.
    if (!meets) return made;
    return in.arena().call("select", dtype, {*meets, made, zero});
  });
  return in.fold(Fold::sum, product, folded)[0];
}

Guard is_zero(Lowering& in, const Index& index) {
  if (index.is_constant() && index.offset() == 0) return {};
  return in.arena().call(
      "eq", DType::boolean,
      {in.arena().position(index), in.arena().integer(DType::i64, 0)});
}

Virtual transposed(Lowering& in, Convolution c) {
  const std::size_t rank = c.rank();
  Shape shape = {c.input.shape()[0], c.groups, c.outputs};
  shape.insert(shape.end(), c.extents.begin(), c.extents.end());
  std::vector<Met> met;
  for (std::size_t i = 0; i < rank; ++i) met.push_back(keep_met(c, i));
  const Virtual sums = sums_of_transposed(in, c);
  return Virtual(sums.dtype(), shape, [=, &in](const Position& at) {
    Position phases(at.begin(), at.begin() + 3);
    Position blocks;
    Guard is_met;
    for (std::size_t i = 0; i < rank; ++i) {
      const auto [first, every] = met[i];
      const std::int64_t raised = first > 0 ? 1 : 0;  // quotients need it
      const Index from = at[3 + i] - first + raised * every;
      const Index output = floor_div(from, every) - raised;
      is_met = in.both(is_met, is_zero(in, floor_mod(from, every)));
      phases.push_back(floor_mod(output, c.stride[i]));
      blocks.push_back(floor_div(output, c.stride[i]));
    }
    phases.insert(phases.end(), blocks.begin(), blocks.end());
    return in.read_if(sums, phases, is_met,
                      in.arena().integer(sums.dtype(), 0));
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
