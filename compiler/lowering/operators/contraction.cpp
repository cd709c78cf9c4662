// Matrix products and what else is a sum of products: each a reduction of
// mul(a, b), which a target can recognise and put on its matrix units.
#include <algorithm>

#include "compiler/graph/einsum_equation.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {

void check_contractions(const Call& call) {
  if (!call.in().options().contractions) {
    throw Unsupported{call.node().target + ": computed by PyTorch's operator"};
  }
}

namespace {

using Values = std::vector<std::optional<Virtual>>;

// One letter a dimension: sum over the letters that the result lacks. Letters
// of extent 1 in one operand broadcast.
using Labels = std::string;

std::int64_t extent_of(char letter, const Virtual& a, const Labels& of_a,
                       const Virtual& b, const Labels& of_b) {
  std::int64_t extent = 1;
  const auto look = [&](const Virtual& value, const Labels& letters) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (letters[i] == letter) extent = std::max(extent, value.shape()[i]);
    }
  };
  look(a, of_a);
  look(b, of_b);
  return extent;
}

Virtual contract(Lowering& in, DType dtype, Virtual a, const Labels& of_a,
                 Virtual b, const Labels& of_b, const Labels& result) {
  a = in.factor(in.cast(a, dtype));
  b = in.factor(in.cast(b, dtype));
  Labels all = result;
  Shape reduced;
  for (const char letter : of_a + of_b) {
    if (all.find(letter) != Labels::npos) continue;
    reduced.push_back(static_cast<std::int64_t>(all.size()));
    all += letter;
  }
  Shape shape;
  for (const char letter : all) {
    shape.push_back(extent_of(letter, a, of_a, b, of_b));
  }
  const auto position_in = [all](const Virtual& value, const Labels& letters,
                                 const Position& at) {
    Position own;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const bool is_broadcast = value.shape()[i] == 1;
      own.push_back(is_broadcast ? Index(0) : at[all.find(letters[i])]);
    }
    return value.at(own);
  };
  const Virtual product(dtype, shape, [=, &in](const Position& at) {
    return in.arena().call(
        "product", dtype, {position_in(a, of_a, at), position_in(b, of_b, at)});
  });
  return in.reduce(Reduction::sum, product, reduced)[0];
}

// "ABCD" for the batch dimensions that a tensor of `rank` has.
Labels batch(std::size_t rank, std::size_t all) {
  return Labels("ABCDEFGH").substr(all - rank, rank);
}

// The general product: the last two dimensions, or the only one, take part;
// those before broadcast.
Virtual product(Lowering& in, DType dtype, const Virtual& a, const Virtual& b) {
  const std::size_t rank_a = a.shape().size();
  const std::size_t rank_b = b.shape().size();
  if (rank_a == 0 || rank_b == 0 || rank_a > 8 || rank_b > 8) {
    throw Unsupported{"a product of that many dimensions"};
  }
  const std::size_t before_a = rank_a > 2 ? rank_a - 2 : 0;
  const std::size_t before_b = rank_b > 2 ? rank_b - 2 : 0;
  const std::size_t before = std::max(before_a, before_b);
  const Labels of_a = batch(before_a, before) + (rank_a > 1 ? "mk" : "k");
  const Labels of_b = batch(before_b, before) + (rank_b > 1 ? "kn" : "k");
  const Labels result =
      batch(before, before) + (rank_a > 1 ? "m" : "") + (rank_b > 1 ? "n" : "");
  return contract(in, dtype, a, of_a, b, of_b, result);
}

Values matmul(const Call& call) {
  check_contractions(call);
  return {product(call.in(), call.result().dtype, call.tensor(0, "self"),
                  call.tensor(1, "other"))};
}

// beta · self + alpha · (a × b)
Values add_product(const Call& call) {
  check_contractions(call);
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const auto scaled = [&](const Virtual& value, double factor) {
    if (factor == 1) return value;
    return in.pointwise("mul", dtype, {value, in.number(dtype, factor)});
  };
  const Virtual sum =
      scaled(product(in, dtype, call.tensor(1, "mat1"), call.tensor(2, "mat2")),
             call.number(99, "alpha", 1));
  const double beta = call.number(99, "beta", 1);
  // Of a factor of zero, also NaN is ignored.
  if (beta == 0) return {sum};
  const Virtual self = in.cast(call.tensor(0, "self"), dtype);
  return {in.pointwise("add", dtype, {sum, scaled(self, beta)})};
}

Values linear(const Call& call) {
  check_contractions(call);
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual value = call.tensor(0, "input");
  const std::size_t rank = value.shape().size();
  if (rank == 0 || rank > 8)
    throw Unsupported{"linear of that many dimensions"};
  const Labels rows = batch(rank - 1, rank - 1);
  const Virtual weight = call.tensor(1, "weight");
  const bool is_vector = weight.shape().size() == 1;
  const Virtual sum =
      contract(in, dtype, value, rows + "k", weight, is_vector ? "k" : "nk",
               is_vector ? rows : rows + "n");
  if (!call.given(2, "bias")) return {sum};
  return {in.pointwise("add", dtype,
                       {sum, in.cast(call.tensor(2, "bias"), dtype)})};
}

// Two operands, each letter once in each, an explicit result.
Values einsum(const Call& call) {
  check_contractions(call);
  const std::string text = call.text(0, "equation");
  const auto equation = parse_einsum(text);
  const std::vector<Virtual> operands = call.tensors(1, "tensors");
  if (!equation || equation->operands.size() != 2 || operands.size() != 2) {
    throw Unsupported{"einsum " + text};
  }
  const Labels a = equation->operands[0], b = equation->operands[1];
  const Labels& result = equation->result;
  if (has_twice(a) || has_twice(b) || has_twice(result)) {
    throw Unsupported{"einsum of a diagonal"};
  }
  return {contract(call.in(), call.result().dtype, operands[0], a, operands[1],
                   b, result)};
}

}  // namespace

void add_contraction_rules(RuleTable& table) {
  for (const char* name : {"mm", "bmm", "mv", "dot", "matmul"}) {
    table[name] = matmul;
  }
  for (const char* name : {"addmm", "baddbmm", "addmv"}) {
    table[name] = add_product;
  }
  table["linear"] = linear;
  table["einsum"] = einsum;
}

}  // namespace weft
