// Reductions over any set of dimensions, and the two softmaxes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/lowering/operators/table.hpp"

namespace weft {

std::vector<Virtual> reduce_with_position(Lowering& in, Reduction reduction,
                                          const Virtual& value,
                                          const Shape& dims) {
  Shape outer;
  bool is_only = !dims.empty();
  for (std::size_t i = 0; i < value.shape().size(); ++i) {
    if (std::ranges::find(dims, static_cast<std::int64_t>(i)) == dims.end()) {
      outer.push_back(value.shape()[i]);
    } else {
      is_only = is_only && value.shape()[i] == 1;
    }
  }
  if (!is_only) return in.reduce(reduction, value, dims);
  // The only element: there is nothing to walk.
  return {in.reshape(value, outer),
          in.broadcast(in.number(DType::i64, 0), outer)};
}

namespace {

using Values = std::vector<std::optional<Virtual>>;

Virtual with_kept_dims(const Call& call, const Virtual& value,
                       const Shape& dims, bool keep) {
  return keep ? call.in().restore(value, dims) : value;
}

Virtual self(const Call& call) { return call.operands({{0, "self"}})[0]; }

Virtual truth_of_self(const Call& call) {
  return call.operands_as(DType::boolean, {{0, "self"}})[0];
}

Values total(const Call& call, Reduction reduction, const Virtual& value) {
  Lowering& in = call.in();
  const Shape dims = call.dims(1, "dim", value.shape().size());
  return {with_kept_dims(call, in.reduce(reduction, value, dims)[0], dims,
                         call.flag(2, "keepdim", false))};
}

// The overloads without dimensions have other arguments in those places.
Rule of_all(Reduction reduction) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = self(call);
    return {in.reduce(reduction, value,
                      call.dims(99, "", value.shape().size()))[0]};
  };
}

Rule over_dims(Reduction reduction) {
  return [=](const Call& call) { return total(call, reduction, self(call)); };
}

Values mean(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = self(call);
  const bool all = call.node().target.ends_with("default");
  const Shape dims =
      call.dims(all ? 99 : 1, all ? "" : "dim", value.shape().size());
  const Virtual sum = in.reduce(Reduction::sum, value, dims)[0];
  const Virtual count = in.count(dtype, elements_along(value, dims));
  return {with_kept_dims(call, in.pointwise("div", dtype, {sum, count}), dims,
                         !all && call.flag(2, "keepdim", false))};
}

/// What a sum of squares is divided by. For any size it is computed, and as a
/// number it would be one of another's constants by chance.
Virtual freedom(Lowering& in, DType of, std::int64_t count, double correction) {
  if (!in.options().for_sizes) {
    return in.number(of,
                     std::max(0.0, static_cast<double>(count) - correction));
  }
  const Virtual left =
      in.pointwise("sub", of, {in.count(of, count), in.number(of, correction)});
  return in.pointwise("maximum", of, {left, in.number(of, 0)});
}

Values variance(const Call& call, bool root, bool with_mean) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = call.tensor(0, "self");
  const Shape dims = call.dims(1, "dim", value.shape().size());
  const bool keep = call.flag(3, "keepdim", false);
  double correction = 1;
  if (call.node().target.ends_with(".correction")) {
    correction = call.number(2, "correction", 1);
  } else {
    throw Unsupported{call.node().target};
  }
  const auto moments = in.moments(value, dims, true);
  const DType of = moments.squares.dtype();
  Virtual result = in.pointwise(
      "div", of, {moments.squares, freedom(in, of, moments.count, correction)});
  if (root) result = in.pointwise("sqrt", of, {result});
  const auto narrow = [&](const Virtual& v) {
    return with_kept_dims(call, in.cast(v, dtype), dims, keep);
  };
  Values values = {narrow(result)};
  if (with_mean) values.push_back(narrow(moments.mean));
  return values;
}

// max.dim, min.dim: the value and where it is first.
Rule extreme_with_position(Reduction reduction) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = call.tensor(0, "self");
    const Shape dims = call.dims(1, "dim", value.shape().size());
    const bool keep = call.flag(2, "keepdim", false);
    const auto reduced = reduce_with_position(in, reduction, value, dims);
    return {with_kept_dims(call, reduced[0], dims, keep),
            with_kept_dims(call, reduced[1], dims, keep)};
  };
}

Rule extreme_position(Reduction reduction) {
  return [=](const Call& call) -> Values {
    const Virtual value = call.tensor(0, "self");
    const Shape dims = call.dims(1, "dim", value.shape().size());
    return {with_kept_dims(
        call, reduce_with_position(call.in(), reduction, value, dims)[1], dims,
        call.flag(2, "keepdim", false))};
  };
}

Rule truth(Reduction reduction) {
  return [=](const Call& call) -> Values {
    if (call.node().target.ends_with("default")) {
      Lowering& in = call.in();
      const Virtual value = truth_of_self(call);
      return {in.reduce(reduction, value,
                        call.dims(99, "", value.shape().size()))[0]};
    }
    return total(call, reduction, truth_of_self(call));
  };
}

Values vector_norm(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = self(call);
  const double order = call.number(1, "ord", 2);
  const Shape dims = call.dims(2, "dim", value.shape().size());
  const auto apply = [&](const char* name, const Virtual& v) {
    return in.pointwise(name, dtype, {v});
  };
  Virtual result;
  if (order == 2) {
    const Virtual wide = in.wide(value);
    const DType of = wide.dtype();
    const Virtual squares = in.pointwise("product", of, {wide, wide});
    result = in.cast(
        in.pointwise("sqrt", of, {in.reduce(Reduction::sum, squares, dims)[0]}),
        dtype);
  } else if (order == 1) {
    result = in.reduce(Reduction::sum, apply("abs", value), dims)[0];
  } else if (order == 0) {
    const Virtual nonzero =
        in.pointwise("ne", DType::boolean, {value, in.number(dtype, 0)});
    result = in.reduce(Reduction::sum, in.cast(nonzero, dtype), dims)[0];
  } else if (std::isinf(order)) {
    result = in.reduce(order > 0 ? Reduction::max : Reduction::min,
                       apply("abs", value), dims)[0];
  } else {
    const Virtual sum =
        in.reduce(Reduction::sum,
                  in.pointwise("pow", dtype,
                               {apply("abs", value), in.number(dtype, order)}),
                  dims)[0];
    result = in.pointwise("pow", dtype, {sum, in.number(dtype, 1 / order)});
  }
  return {with_kept_dims(call, result, dims, call.flag(3, "keepdim", false))};
}

Values logsumexp(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = self(call);
  const Shape dims = call.dims(1, "dim", value.shape().size());
  const Virtual most =
      in.pointwise("finite_or_zero_keep_nan", dtype,
                   {in.reduce(Reduction::max, value, dims)[0]});
  const Virtual moved =
      in.pointwise("sub", dtype, {value, in.restore(most, dims)});
  const Virtual sum =
      in.reduce(Reduction::sum, in.pointwise("exp", dtype, {moved}), dims)[0];
  const Virtual result =
      in.pointwise("add", dtype, {in.pointwise("log", dtype, {sum}), most});
  return {with_kept_dims(call, result, dims, call.flag(2, "keepdim", false))};
}

Values softmax(const Call& call, bool log) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = self(call);
  const std::size_t rank = value.shape().size();
  Shape dims;
  if (rank > 0) dims.push_back(call.dim(1, "dim", -1, rank));
  const Virtual most =
      in.restore(in.reduce(Reduction::max, value, dims)[0], dims);
  const Virtual moved = in.pointwise("sub", dtype, {value, most});
  const Virtual power = in.pointwise("exp", dtype, {moved});
  const Virtual sum =
      in.restore(in.reduce(Reduction::sum, power, dims)[0], dims);
  if (!log) {
    // The sum is 1 at least, and its reciprocal a number.
    return {
        in.uses_half_functions()
            ? in.pointwise("product", dtype,
                           {power, in.pointwise("reciprocal", dtype, {sum})})
            : in.pointwise("div", dtype, {power, sum})};
  }
  return {
      in.pointwise("sub", dtype, {moved, in.pointwise("log", dtype, {sum})})};
}

Rule running(Reduction reduction) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = self(call);
    const std::int64_t dim = call.dim(1, "dim", 0, value.shape().size());
    return {in.scan(reduction, value, dim)};
  };
}

}  // namespace

void add_reduction_rules(RuleTable& table) {
  table["sum.dim_IntList"] = over_dims(Reduction::sum);
  table["sum.default"] = of_all(Reduction::sum);
  table["mean"] = mean;
  table["amax"] = over_dims(Reduction::max);
  table["amin"] = over_dims(Reduction::min);
  table["max.default"] = of_all(Reduction::max);
  table["min.default"] = of_all(Reduction::min);
  table["max.dim"] = extreme_with_position(Reduction::argmax);
  table["min.dim"] = extreme_with_position(Reduction::argmin);
  table["argmax"] = extreme_position(Reduction::argmax);
  table["argmin"] = extreme_position(Reduction::argmin);
  table["prod.dim_int"] = over_dims(Reduction::prod);
  table["prod.default"] = of_all(Reduction::prod);
  table["any"] = truth(Reduction::max);
  table["all"] = truth(Reduction::min);
  table["var"] = [](const Call& c) { return variance(c, false, false); };
  table["std"] = [](const Call& c) { return variance(c, true, false); };
  table["var_mean"] = [](const Call& c) { return variance(c, false, true); };
  table["std_mean"] = [](const Call& c) { return variance(c, true, true); };
  table["cumsum"] = along_a_dim(running(Reduction::sum));
  table["cumprod"] = along_a_dim(running(Reduction::prod));
  table["linalg_vector_norm"] = vector_norm;
  table["logsumexp"] = logsumexp;
  table["_softmax"] = [](const Call& c) { return softmax(c, false); };
  table["_log_softmax"] = [](const Call& c) { return softmax(c, true); };
}

}  // namespace weft
