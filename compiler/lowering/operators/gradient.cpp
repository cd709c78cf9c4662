// Gradients of single operators that PyTorch does not take apart itself.
// Most are: capture's table of decompositions makes forward operators of them.
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// Pointwise arithmetic in one type.
struct Arithmetic {
  Lowering& in;
  DType dtype;

  Virtual of(const char* function, const std::vector<Virtual>& values) const {
    return in.pointwise(function, dtype, values);
  }
  Virtual mul(const Virtual& a, const Virtual& b) const {
    return of("mul", {a, b});
  }
  Virtual one_less(const Virtual& a) const {
    return of("sub", {in.number(dtype, 1), a});
  }
};

// d(x · s) = s · (1 + x · (1 - s)), where s is x's sigmoid.
Values silu(const Call& call) {
  const Arithmetic a{call.in(), call.result().dtype};
  const Virtual gradient = a.in.cast(call.tensor(0, "grad_output"), a.dtype);
  const Virtual x = a.in.cast(call.tensor(1, "self"), a.dtype);
  const Virtual s = a.of("sigmoid", {x});
  const Virtual slope =
      a.of("add", {a.in.number(a.dtype, 1), a.mul(x, a.one_less(s))});
  return {a.mul(a.mul(gradient, s), slope)};
}

// d(x · t) = t + x · s · (1 - t²), where t is the hyperbolic tangent of
// softplus.
Values mish(const Call& call) {
  const Arithmetic a{call.in(), call.result().dtype};
  const Virtual gradient = a.in.cast(call.tensor(0, "grad_output"), a.dtype);
  const Virtual x = a.in.cast(call.tensor(1, "self"), a.dtype);
  const Virtual s = a.of("sigmoid", {x});
  const Virtual t = a.of(
      "tanh", {a.of("softplus",
                    {x, a.in.number(a.dtype, 1), a.in.number(a.dtype, 20)})});
  const Virtual bent = a.mul(a.mul(x, s), a.one_less(a.mul(t, t)));
  return {a.mul(gradient, a.of("add", {t, bent}))};
}

}  // namespace

void add_gradient_rules(RuleTable& table) {
  table["silu_backward"] = silu;
  table["mish_backward"] = mish;
}

}  // namespace weft
