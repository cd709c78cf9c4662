// Attention, as the two products about a softmax.
#include <cmath>
#include <limits>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

// a [batch…, m, k] and b [batch…, n, k] or [batch…, k, n].
Virtual product(Lowering& in, const Virtual& left, const Virtual& right,
                bool turned) {
  const Virtual a = in.factor(left);
  const Virtual b = in.factor(right);
  const std::size_t rank = a.shape().size();
  Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.push_back(b.shape()[turned ? rank - 2 : rank - 1]);
  shape.push_back(a.shape().back());
  const DType dtype = a.dtype();
  const Virtual terms(dtype, shape, [=, &in](const Position& at) {
    Position of_a(at.begin(), at.begin() + rank - 1);
    Position of_b(at.begin(), at.begin() + rank - 2);
    const Index& column = at[rank - 1];
    const Index& reduced = at[rank];
    of_a.push_back(reduced);
    of_b.push_back(turned ? column : reduced);
    of_b.push_back(turned ? reduced : column);
    return in.arena().call("product", dtype, {a.at(of_a), b.at(of_b)});
  });
  return in.reduce(Reduction::sum, terms, {static_cast<std::int64_t>(rank)})[0];
}

Virtual masked(const Call& call, const Virtual& scores) {
  Lowering& in = call.in();
  const DType dtype = scores.dtype();
  const Virtual minus =
      in.number(dtype, -std::numeric_limits<double>::infinity());
  Virtual result = scores;
  if (call.flag(5, "is_causal", false)) {
    const Virtual seen(
        DType::boolean, scores.shape(), [&in](const Position& at) {
          const std::size_t rank = at.size();
          return in.arena().call("le", DType::boolean,
                                 {in.arena().position(at[rank - 1]),
                                  in.arena().position(at[rank - 2])});
        });
    result = in.pointwise("select", dtype, {seen, result, minus});
  }
  if (!call.given(3, "attn_mask")) return result;
  const Virtual mask = call.tensor(3, "attn_mask");
  if (mask.dtype() == DType::boolean) {
    return in.pointwise("select", dtype, {mask, result, minus});
  }
  return in.pointwise("add", dtype, {result, in.cast(mask, dtype)});
}

// A row of which nothing is seen gives zeros, not NaN.
Virtual softmax(Lowering& in, const Virtual& scores) {
  const DType dtype = scores.dtype();
  const Shape last = {static_cast<std::int64_t>(scores.shape().size()) - 1};
  const Virtual most =
      in.restore(in.reduce(Reduction::max, scores, last)[0], last);
  const Virtual powers =
      in.pointwise("exp", dtype, {in.pointwise("sub", dtype, {scores, most})});
  const Virtual sum =
      in.restore(in.reduce(Reduction::sum, powers, last)[0], last);
  const Virtual nothing = in.pointwise(
      "eq", DType::boolean,
      {most, in.number(dtype, -std::numeric_limits<double>::infinity())});
  return in.pointwise("select", dtype,
                      {nothing, in.number(dtype, 0),
                       in.pointwise("div", dtype, {powers, sum})});
}

Values attention(const Call& call) {
  check_contractions(call);
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual query = in.cast(call.tensor(0, "query"), dtype);
  const Virtual key = in.cast(call.tensor(1, "key"), dtype);
  const Virtual value = in.cast(call.tensor(2, "value"), dtype);
  const std::size_t rank = query.shape().size();
  const Shape batch(query.shape().begin(), query.shape().end() - 2);
  const auto same_batch = [&](const Virtual& other) {
    return other.shape().size() == rank &&
           std::equal(batch.begin(), batch.end(), other.shape().begin());
  };
  if (rank < 2 || call.number(4, "dropout_p", 0) != 0 || !same_batch(key) ||
      !same_batch(value)) {
    throw Unsupported{"attention with dropout or shared heads"};
  }
  const double scale =
      call.number(99, "scale", 1 / std::sqrt(query.shape().back()));
  const Virtual scores = in.pointwise(
      "mul", dtype, {product(in, query, key, true), in.number(dtype, scale)});
  const Virtual weights = softmax(in, masked(call, scores));
  return {product(in, weights, value, false)};
}

}  // namespace

void add_attention_rules(RuleTable& table) {
  table["scaled_dot_product_attention"] = attention;
}

}  // namespace weft
