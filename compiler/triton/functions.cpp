#include "compiler/triton/functions.hpp"

#include <map>

#include "compiler/loops/scalar_functions.hpp"

namespace weft {
namespace {

struct Helper {
  std::vector<std::string> needs;
  std::string text;
};

// Of float32 only; polynomials and splits made for its 24 bits.
const std::map<std::string, Helper>& helpers_of_float32() {
  static const std::map<std::string, Helper> table = {
      {"expm1", {{}, R"py(def _expm1(x):
    """e^x - 1, exact to rounding also near zero."""
    p = 1 / 720 + x * (1 / 5040)
    p = 1 / 6 + x * (1 / 24 + x * (1 / 120 + x * p))
    near = tl.where(x == 0.0, x, x + x * x * (0.5 + x * p))
    return tl.where(tl.abs(x) < 0.5, near, tl.exp(x) - 1)
)py"}},
      {"log1p", {{}, R"py(def _log1p(x):
    """log(1 + x); what 1 + x rounds away is scaled back in."""
    u = 1.0 + x
    d = u - 1.0
    y = tl.log(u) * (x / tl.where(d == 0.0, 1.0, d))
    return tl.where(d == 0.0, x, tl.where(u == float("inf"), x, y))
)py"}},
      {"tanh", {{"expm1"}, R"py(def _tanh(x):
    a = tl.abs(x)
    t = _expm1(2.0 * tl.where(a > 10.0, 10.0, a))
    r = t / (t + 2.0)
    return tl.where(x < 0, -r, tl.where(x > 0, r, x))
)py"}},
      {"erf", {{}, "def _erf(x):\n    return tl.erf(x)\n"}},
      {"round", {{}, R"py(def _round(x):
    """To the nearest integer, ties to the even one."""
    a = tl.abs(x)
    r = tl.where(a < 8388608.0, (a + 8388608.0) - 8388608.0, a)
    return tl.where(x < 0, r * -1.0, tl.where(x > 0, r, x))
)py"}},
      {"gelu", {{}, R"py(def _gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
)py"}},
      {"gelu_tanh", {{}, R"py(def _gelu_tanh(x):
    """x sigmoid(2 u), which is 0.5 x (1 + tanh(u)) and does not cancel."""
    return x / (1.0 + tl.exp(
        -1.5957691216057308 * (x + 0.044715 * (x * x * x))))
)py"}},
      {"softplus", {{"log1p"}, R"py(def _softplus(x, beta, threshold):
    scaled = x * beta
    return tl.where(scaled > threshold, x, _log1p(tl.exp(scaled)) / beta)
)py"}},
      {"mish", {{}, R"py(def _mish(x):
    """x tanh(log(1 + e^x)), as a quotient of polynomials in e^x."""
    e = tl.exp(tl.minimum(x, 20.0))
    n = e * (e + 2.0)
    return tl.where(x > 20.0, x, x * (n / (n + 2.0)))
)py"}},
      {"log_sigmoid", {{"log1p"}, R"py(def _log_sigmoid(x):
    low = tl.minimum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return low - _log1p(tl.exp(-tl.abs(x)))
)py"}},
      {"clamp", {{}, R"py(def _clamp(x, low, high):
    x = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, high, propagate_nan=tl.PropagateNan.ALL)
)py"}},
      {"relu6", {{"clamp"}, R"py(def _relu6(x):
    return _clamp(x, 0.0, 6.0)
)py"}},
      {"hardsigmoid", {{"clamp"}, R"py(def _hardsigmoid(x):
    return _clamp(x + 3.0, 0.0, 6.0) / 6.0
)py"}},
      {"hardswish", {{"clamp"}, R"py(def _hardswish(x):
    return x * _clamp(x + 3.0, 0.0, 6.0) / 6.0
)py"}},
      {"elu", {{"expm1"}, R"py(def _elu(x, alpha, scale, input_scale):
    negative = _expm1(x * input_scale) * (alpha * scale)
    return tl.where(x > 0, x * scale, negative)
)py"}},
      {"selu", {{"elu"}, R"py(def _selu(x):
    return _elu(x, 1.6732632423543772, 1.0507009873554805, 1.0)
)py"}},
      {"softshrink", {{}, R"py(def _softshrink(x, limit):
    low = tl.where(x < -limit, x + limit, x * 0.0)
    return tl.where(x > limit, x - limit, low)
)py"}},
      {"xlogy", {{}, R"py(def _xlogy(x, y):
    product = tl.where(x == 0, 0.0, x * tl.log(y))
    return tl.where(y != y, y, product)
)py"}},
      {"pow", {{}, R"py(def _pow(x, y):
    """In float64 inside: the logarithm's error is multiplied by y."""
    y = tl.zeros_like(x) + y
    a = tl.abs(x).to(tl.float64)
    power = tl.exp2(y.to(tl.float64) * tl.log2(a)).to(tl.float32)
    power = tl.where(a == 1.0, 1.0, power)
    half = tl.floor(y) * 0.5
    odd = (tl.floor(half) != half) & (tl.abs(y) < 16777216.0)
    fraction = (tl.floor(y) != y) & (tl.abs(x) != float("inf"))
    signed = tl.where(odd, power * -1.0, power)
    has_minus = (x < 0) | ((x == 0) & (1.0 / x < 0))
    power = tl.where(has_minus, signed, power)
    power = tl.where((x < 0) & fraction, float("nan"), power)
    return tl.where((y == 0) | (x == 1), 1.0, power)
)py"}},
  };
  return table;
}

// What combines two values in a reduction or a scan.
const std::map<std::string, Helper>& combining() {
  static const std::map<std::string, Helper> table = {
      {"in_bounds", {{}, R"py(def _in_bounds(index, low, high):
    """As the framework's kernels do: a call with an index outside fails."""
    inside = (index >= low) & (index < high)
    tl.device_assert(inside, "index out of bounds")
    return inside
)py"}},
      {"sum_of", {{}, "def _sum_of(a, b):\n    return a + b\n"}},
      {"product_of", {{}, "def _product_of(a, b):\n    return a * b\n"}},
      {"max_of", {{}, R"py(def _max_of(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
)py"}},
      {"min_of", {{}, R"py(def _min_of(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
)py"}},
      {"high_half", {{}, R"py(def _high_half(x):
    """The nearest number that the matrix units hold in 19 bits."""
    bits = (x.to(tl.int32, bitcast=True) + 4096) & -8192
    high = bits.to(tl.float32, bitcast=True)
    return tl.where(x == x, high, x)
)py"}},
      {"low_half", {{"high_half"}, R"py(def _low_half(x):
    """What the high half leaves; nothing of infinities and NaN."""
    low = x - _high_half(x)
    return tl.where(low == low, low, 0.0)
)py"}},
      {"argmax_of", {{}, R"py(def _argmax_of(a, i, b, j):
    """The larger with its place; NaN is largest, the first of equals wins."""
    same = (a == b) | ((a != a) & (b != b))
    second = (b > a) | ((b != b) & (a == a)) | (same & (j < i))
    return tl.where(second, b, a), tl.where(second, j, i)
)py"}},
      {"argmin_of", {{}, R"py(def _argmin_of(a, i, b, j):
    """The smaller with its place; NaN is smallest, the first of equals wins."""
    same = (a == b) | ((a != a) & (b != b))
    second = (b < a) | ((b != b) & (a == a)) | (same & (j < i))
    return tl.where(second, b, a), tl.where(second, j, i)
)py"}},
  };
  return table;
}

const Helper* find_helper(const std::string& name) {
  for (const auto* table : {&helpers_of_float32(), &combining()}) {
    const auto found = table->find(name);
    if (found != table->end()) return &found->second;
  }
  return nullptr;
}

void print_helper(const std::string& name, std::set<std::string>& printed,
                  std::string& text) {
  const Helper* helper = find_helper(name);
  if (helper == nullptr || !printed.insert(name).second) return;
  for (const std::string& need : helper->needs) {
    print_helper(need, printed, text);
  }
  text += "@triton.jit\n" + helper->text + "\n\n";
}

}  // namespace

std::optional<std::string> triton_call(
    const std::string& function, DType dtype,
    const std::vector<std::string>& arguments, std::set<std::string>& helpers) {
  if (auto text = spelled(Language::triton, function, dtype, arguments)) {
    return text;
  }
  if (function != "in_bounds" &&
      (dtype != DType::f32 || !helpers_of_float32().contains(function))) {
    return std::nullopt;
  }
  helpers.insert(function);
  std::string text = "_" + function + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text += (i == 0 ? "" : ", ") + arguments[i];
  }
  return text + ")";
}

std::string triton_helpers(const std::set<std::string>& helpers) {
  std::set<std::string> printed;
  std::string text;
  for (const std::string& name : helpers) print_helper(name, printed, text);
  return text;
}

}  // namespace weft
