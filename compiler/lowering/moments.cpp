// Means, and sums of squares about them.
#include <algorithm>

#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

/// Of a row's first elements.
Virtual mean_of_first(Lowering& in, const Virtual& value, const Shape& dims) {
  Shape sample = value.shape();
  std::int64_t samples_left = 1024;
  for (std::size_t i = dims.size(); i-- > 0;) {
    sample[dims[i]] = std::min(sample[dims[i]], samples_left);
    samples_left = std::max<std::int64_t>(1, samples_left / sample[dims[i]]);
  }
  double sampled = 1;
  for (const std::int64_t dim : dims) sampled *= sample[dim];
  const DType dtype = value.dtype();
  const Virtual first(dtype, sample,
                      [=](const Position& at) { return value.at(at); });
  return in.pointwise(
      "div", dtype,
      {in.reduce(Reduction::sum, first, dims)[0], in.number(dtype, sampled)});
}

}  // namespace

std::int64_t elements_along(const Virtual& value, const Shape& dims) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) elements *= value.shape()[dim];
  return elements;
}

// True if the sum of `count` equal elements, of the arguments' half type, is
// exact in float32. Then their mean is exact, too, and needs no correction.
bool Lowering::sums_exactly_alike(std::int64_t count) const {
  if (options_.free_rounding || options_.for_sizes) return false;
  const int bits = argument_type_ == DType::bf16  ? 8
                   : argument_type_ == DType::f16 ? 11
                                                  : 24;
  return count <= std::int64_t{1} << (24 - bits);
}

// Two passes when a row stays in cache, or may be of any length. Otherwise one,
// about a shift that is near the mean (that of the row's first elements), which
// keeps the difference of squares from cancelling as it would about zero. Of
// two the second may put the first one's mean right.
// Halves have so few digits that their mean may be float32; sums need float64's
// range.
Lowering::Moments Lowering::moments(const Virtual& given, const Shape& dims,
                                    bool is_wide) {
  Moments result;
  result.count = elements_along(given, dims);
  const bool side_by_side =
      std::ranges::find(dims, 1) == dims.end() && lies_channels_last(given);
  const LoweringChoices& choices = options_.choices;
  const double rows =
      side_by_side ? static_cast<double>(choices.coalesced_rows) : 1;
  const bool is_two_pass =
      options_.for_sizes ||
      static_cast<double>(result.count) * rows <=
          static_cast<double>(choices.single_pass_elements);
  const bool only_squares_wide = is_two_pass && takes_halves();
  const Virtual value = is_wide && !only_squares_wide ? wide(given) : given;
  const DType dtype = value.dtype();
  const Virtual elements = count(dtype, result.count);
  const auto divide = [&](const Virtual& a, const Virtual& b) {
    return pointwise("div", dtype, {a, b});
  };
  Virtual shift = value;
  if (is_two_pass) {
    const Virtual summed = is_wide ? wide(given) : given;
    const Virtual mean = pointwise("div", summed.dtype(),
                                   {reduce(Reduction::sum, summed, dims)[0],
                                    count(summed.dtype(), result.count)});
    shift = mean.dtype() == dtype ? mean : cast(mean, dtype);
  } else {
    shift = mean_of_first(*this, value, dims);
  }
  if (is_two_pass &&
      (!options_.mended_means || sums_exactly_alike(result.count))) {
    const Virtual difference =
        pointwise("sub", dtype, {value, restore(shift, dims)});
    const Virtual centred = is_wide ? wide(difference) : difference;
    result.mean = shift;
    result.squares = reduce(
        Reduction::sum,
        pointwise("product", centred.dtype(), {centred, centred}), dims)[0];
    return result;
  }
  shift = pointwise("finite_or_zero", dtype, {shift});
  const Virtual moved = pointwise("sub", dtype, {value, restore(shift, dims)});
  const Virtual sum = reduce(Reduction::sum, moved, dims)[0];
  const Virtual squares = reduce(
      Reduction::sum, pointwise("product", dtype, {moved, moved}), dims)[0];
  const Virtual drift = divide(sum, elements);
  result.mean = pointwise("add", dtype, {shift, drift});
  // Where that is too large a number, so are the squares; and where there is
  // an infinity, there is no variance.
  const Virtual less = pointwise("finite_or_zero", dtype,
                                 {pointwise("product", dtype, {sum, drift})});
  const Virtual nothing = pointwise("sub", dtype, {sum, sum});
  const Virtual excess = pointwise(
      "add", dtype, {pointwise("sub", dtype, {squares, less}), nothing});
  result.squares = pointwise("maximum", dtype, {excess, number(dtype, 0)});
  return result;
}

}  // namespace weft
