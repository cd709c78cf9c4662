// Normalisations: statistics over some dimensions, then scale and shift.
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

// Elementwise shorthand in one type.
struct Math {
  Lowering& in;
  DType dtype;

  Virtual operator()(const char* name, const Virtual& a) const {
    return in.pointwise(name, dtype, {a});
  }
  Virtual operator()(const char* name, const Virtual& a,
                     const Virtual& b) const {
    return in.pointwise(name, dtype, {a, b});
  }
  Virtual number(double value) const { return in.number(dtype, value); }
  Virtual count(std::int64_t elements) const {
    return in.count(dtype, elements);
  }
  /// 1 / sqrt(variance + eps)
  Virtual inverse_deviation(const Virtual& variance, double eps) const {
    return (*this)("rsqrt", (*this)("add", variance, number(eps)));
  }
};

// A vector with one entry a channel, to be broadcast over dimension `dim`.
Virtual along(Lowering& in, const Virtual& vector, std::size_t dim,
              std::size_t rank) {
  Shape shape(rank, 1);
  if (dim >= rank) throw Unsupported{"normalisation of such dimensions"};
  if (vector.shape().size() == 1) shape[dim] = vector.shape()[0];
  return in.reshape(vector, shape);
}

Virtual scale_and_shift(const Call& call, const Math& math, Virtual value,
                        std::size_t dim, std::size_t weight_at) {
  const std::size_t rank = value.shape().size();
  if (call.given(weight_at, "weight")) {
    const Virtual weight = call.tensor(weight_at, "weight");
    value = math("product", value, along(math.in, weight, dim, rank));
  }
  if (call.given(weight_at + 1, "bias")) {
    const Virtual bias = call.tensor(weight_at + 1, "bias");
    value = math("add", value, along(math.in, bias, dim, rank));
  }
  return value;
}

Values layer_norm(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "input");
  const Math math{in, call.result().dtype};
  const Shape dims =
      last_dims(value, call.integers(1, "normalized_shape").size());
  const auto moments = in.moments(value, dims);
  const Virtual mean = in.restore(moments.mean, dims);
  const Virtual variance =
      math("div", moments.squares, math.count(moments.count));
  const Virtual inverse = in.restore(
      math.inverse_deviation(variance, call.number(4, "eps", 1e-5)), dims);
  Virtual result = math("product", math("sub", value, mean), inverse);
  if (call.given(2, "weight")) {
    result = math("product", result, call.tensor(2, "weight"));
  }
  if (call.given(3, "bias")) {
    result = math("add", result, call.tensor(3, "bias"));
  }
  return {result, mean, inverse};
}

Values rms_norm(const Call& call, bool with_inverse) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "input");
  const Math math{in, call.result().dtype};
  const Shape dims =
      last_dims(value, call.integers(1, "normalized_shape").size());
  // PyTorch's default is the type's epsilon.
  const double eps =
      call.number(3, "eps", math.dtype == DType::f64 ? 0x1p-52 : 0x1p-23);
  const Virtual sum =
      in.reduce(Reduction::sum, math("product", value, value), dims)[0];
  const Virtual inverse = in.restore(
      math.inverse_deviation(
          math("div", sum, math.count(elements_along(value, dims))), eps),
      dims);
  Virtual result = math("product", value, inverse);
  if (call.given(2, "weight")) {
    result = math("product", result, call.tensor(2, "weight"));
  }
  if (with_inverse) return {result, inverse};
  return {result};
}

Shape all_but_channels(std::size_t rank) {
  Shape dims;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != 1) dims.push_back(i);
  }
  return dims;
}

// A group's moments from those of its channels, each of which lies in one
// piece where a group does not. Exact: the squares about the group's mean are
// those about the channels' means and what these are from the group's.
Lowering::Moments moments_by_channel(Lowering& in, const Math& math,
                                     const Virtual& value,
                                     std::int64_t groups) {
  const std::int64_t channels = value.shape()[1];
  Shape positions = all_but_channels(value.shape().size());
  positions.erase(positions.begin());
  const auto each = in.moments(value, positions);
  const Shape grouped = {value.shape()[0], groups, channels / groups};
  const Virtual mean = in.reshape(each.mean, grouped);
  const Virtual squares = in.reshape(each.squares, grouped);
  Lowering::Moments all;
  all.count = each.count * grouped[2];
  const auto mean_of = [&](const Virtual& each) {
    return math("div", in.reduce(Reduction::sum, each, {2})[0],
                math.count(grouped[2]));
  };
  all.mean = mean_of(mean);
  Virtual off = math("sub", mean, in.restore(all.mean, {2}));
  if (in.options().mended_means) {
    all.mean = math("add", all.mean, mean_of(off));
    off = math("sub", mean, in.restore(all.mean, {2}));
  }
  all.squares = in.reduce(
      Reduction::sum,
      math("add", squares,
           math("product", math("product", off, off), math.count(each.count))),
      {2})[0];
  return all;
}

// (input, weight, bias, N, C, HxW, groups, eps) to (result, mean, inverse),
// where channels lie innermost.
Values group_norm_channels_last(const Call& call, const Virtual& value,
                                std::int64_t groups) {
  Lowering& in = call.in();
  const Math math{in, call.result().dtype};
  const std::size_t rank = value.shape().size();
  const std::int64_t batch = value.shape()[0];
  const std::int64_t channels = value.shape()[1];
  const auto moments = moments_by_channel(in, math, value, groups);
  const Virtual inverse = math.inverse_deviation(
      math("div", moments.squares, math.count(moments.count)),
      call.number(7, "eps", 1e-5));
  const auto for_channels = [&](const Virtual& of_groups) {
    Shape shape(rank, 1);
    shape[0] = batch;
    shape[1] = channels;
    return in.reshape(in.broadcast(in.restore(of_groups, {2}),
                                   {batch, groups, channels / groups}),
                      shape);
  };
  const Virtual normal =
      math("product", math("sub", value, for_channels(moments.mean)),
           for_channels(inverse));
  return {scale_and_shift(call, math, normal, 1, 1), moments.mean, inverse};
}

// (input, weight, bias, N, C, HxW, groups, eps) to (result, mean, inverse).
Values group_norm(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "input");
  const Math math{in, call.result().dtype};
  const std::int64_t batch = call.integer(3, "N", 1);
  const std::int64_t channels = call.integer(4, "C", 1);
  const std::int64_t area = call.integer(5, "HxW", 1);
  const std::int64_t groups = call.integer(6, "group", 1);
  if (in.lies_channels_last(value)) {
    return group_norm_channels_last(call, value, groups);
  }
  const Virtual grouped =
      in.reshape(value, {batch, groups, channels / groups, area});
  const Shape dims = {2, 3};
  const auto moments = in.moments(grouped, dims);
  const Virtual variance =
      math("div", moments.squares, math.count(moments.count));
  const Virtual inverse =
      math.inverse_deviation(variance, call.number(7, "eps", 1e-5));
  const Virtual normal =
      math("product", math("sub", grouped, in.restore(moments.mean, dims)),
           in.restore(inverse, dims));
  const Virtual result =
      scale_and_shift(call, math, in.reshape(normal, value.shape()), 1, 1);
  return {result, moments.mean, inverse};
}

Virtual apply_statistics(const Call& call, const Math& math,
                         const Virtual& value, const Virtual& mean,
                         const Virtual& inverse, std::size_t weight_at) {
  const std::size_t rank = value.shape().size();
  const Virtual centred = math("sub", value, along(math.in, mean, 1, rank));
  const Virtual normal =
      math("product", centred, along(math.in, inverse, 1, rank));
  return scale_and_shift(call, math, normal, 1, weight_at);
}

// new = (1 - momentum) · old + momentum · batch
Virtual running(const Math& math, const Virtual& old, const Virtual& batch,
                double momentum) {
  return math("add", math("product", old, math.number(1 - momentum)),
              math("product", batch, math.number(momentum)));
}

// Batch norm from the batch's own statistics. `stats_at` is where momentum
// and eps stand; the new running statistics are returned if there are any.
Values batch_norm_training(const Call& call, std::size_t momentum_at,
                           bool has_running) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "input");
  const Math math{in, call.result().dtype};
  const Shape dims = all_but_channels(value.shape().size());
  auto moments = in.moments(value, dims, !in.takes_halves());
  moments.mean = in.cast(moments.mean, math.dtype);
  moments.squares = in.cast(moments.squares, math.dtype);
  const Virtual variance =
      math("div", moments.squares, math.count(moments.count));
  const Virtual inverse = math.inverse_deviation(
      variance, call.number(momentum_at + 1, "eps", 1e-5));
  Values values = {
      apply_statistics(call, math, value, moments.mean, inverse, 1),
      moments.mean, inverse};
  if (!has_running) return values;
  const double momentum = call.number(momentum_at, "momentum", 0.1);
  const Virtual unbiased =
      math("div", moments.squares, math.count(moments.count - 1));
  values.push_back(
      running(math, call.tensor(3, "running_mean"), moments.mean, momentum));
  values.push_back(
      running(math, call.tensor(4, "running_var"), unbiased, momentum));
  return values;
}

// Batch norm from the running statistics.
Values batch_norm_inference(const Call& call, std::size_t eps_at) {
  const Virtual value = call.tensor(0, "input");
  const Math math{call.in(), call.result().dtype};
  const Virtual mean = call.tensor(3, "running_mean");
  const Virtual inverse = math.inverse_deviation(
      call.tensor(4, "running_var"), call.number(eps_at, "eps", 1e-5));
  return {apply_statistics(call, math, value, mean, inverse, 1), std::nullopt,
          std::nullopt};
}

Values batch_norm_functional(const Call& call) {
  if (call.flag(5, "training", true)) {
    return batch_norm_training(call, 6, true);
  }
  Values values = batch_norm_inference(call, 7);
  values.push_back(call.tensor(3, "running_mean"));
  values.push_back(call.tensor(4, "running_var"));
  return values;
}

Values batch_norm_plain(const Call& call) {
  // In training this one writes its running statistics in place.
  if (call.flag(5, "training", true)) {
    if (call.given(3, "running_mean")) throw Unsupported{call.node().target};
    return batch_norm_training(call, 6, false);
  }
  return batch_norm_inference(call, 7);
}

}  // namespace

void add_norm_rules(RuleTable& table) {
  table["native_layer_norm"] = layer_norm;
  table["native_group_norm"] = group_norm;
  table["rms_norm"] = [](const Call& c) { return rms_norm(c, false); };
  table["_fused_rms_norm"] = [](const Call& c) { return rms_norm(c, true); };
  table["_native_batch_norm_legit_functional"] = batch_norm_functional;
  table["_native_batch_norm_legit.no_stats"] = [](const Call& call) {
    return batch_norm_training(call, 4, false);
  };
  table["_native_batch_norm_legit_no_training"] = [](const Call& call) {
    return batch_norm_inference(call, 6);
  };
  table["native_batch_norm"] = batch_norm_plain;
}

}  // namespace weft
