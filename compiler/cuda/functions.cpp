#include "compiler/cuda/functions.hpp"

#include <map>

#include "compiler/loops/program.hpp"
#include "compiler/loops/scalar_functions.hpp"

namespace weft {
namespace {

struct Helper {
  std::vector<std::string> needs;
  std::string text;
};

// Of floating-point numbers, each an operation of the model's with a rounding
// of its own (see the prelude's vectors).
std::string rounded_name(const std::string& function) {
  if (function == "add") return "plus";
  if (function == "sub") return "minus";
  if (function == "mul" || function == "square") return "times";
  return "";
}

// Templates of float and double; `remainder` and `div_floor` of integers too.
const std::map<std::string, Helper>& helpers_by_name() {
  static const std::map<std::string, Helper> table = {
      {"positive_part", {{}, R"cu(T positive_part(T x) {
  return larger(x, T(0));
}
)cu"}},
      {"gelu", {{}, R"cu(T gelu(T x) {
  return T(0.5) * x * (1 + erf(x * T(0.7071067811865476)));
}
)cu"}},
      {"gelu_tanh",
       {{},
        R"cu(// x sigmoid(2 u), which is 0.5 x (1 + tanh(u)) and does not cancel.
T gelu_tanh(T x) {
  return x / (1 + exp(T(-1.5957691216057308) *
                      (x + T(0.044715) * (x * x * x))));
}
)cu"}},
      {"softplus", {{}, R"cu(T softplus(T x, T beta, T threshold) {
  const T scaled = x * beta;
  return scaled > threshold ? x : log1p(exp(scaled)) / beta;
}
)cu"}},
      {"mish",
       {{}, R"cu(// x tanh(log(1 + e^x)), as a quotient of polynomials in e^x.
T mish(T x) {
  const T e = exp(smaller(x, T(20)));
  const T n = e * (e + 2);
  return x > 20 ? x : x * (n / (n + 2));
}
)cu"}},
      {"log_sigmoid", {{}, R"cu(T log_sigmoid(T x) {
  return smaller(x, T(0)) - log1p(exp(-fabs(x)));
}
)cu"}},
      {"relu6", {{}, R"cu(T relu6(T x) {
  return smaller(larger(x, T(0)), T(6));
}
)cu"}},
      {"hardsigmoid", {{"relu6"}, R"cu(T hardsigmoid(T x) {
  return relu6(x + 3) / 6;
}
)cu"}},
      {"hardswish", {{"relu6"}, R"cu(T hardswish(T x) {
  return x * relu6(x + 3) / 6;
}
)cu"}},
      {"elu", {{}, R"cu(T elu(T x, T alpha, T scale, T input_scale) {
  return x > 0 ? x * scale : expm1(x * input_scale) * alpha * scale;
}
)cu"}},
      {"selu", {{"elu"}, R"cu(T selu(T x) {
  return elu(x, T(1.6732632423543772), T(1.0507009873554805), T(1));
}
)cu"}},
      {"softshrink", {{}, R"cu(T softshrink(T x, T limit) {
  const T low = x < -limit ? x + limit : x * 0;
  return x > limit ? x - limit : low;
}
)cu"}},
      // CUDA's own for floats takes 25 instructions, these 20: logarithms of
      // all that comes from memory keep the processors busier than it.
      {"natural_log", {{}, R"cu(T natural_log(T x) {
  return log(x);
}
DEVICE float hardware_log2(float x) {
  float power;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// Right to one unit. x is 2^power m, with m from sqrt(1/2) to sqrt(2); the
// hardware's logarithm, rounded to a whole number by adding 1.5 * 2^23, is the
// power, and says what has none: it is infinite or NaN where log(x) is.
DEVICE float natural_log(float x) {
  const bool denormal = x < 1.17549435e-38f;
  const float normal = denormal ? x * 8388608.0f : x;
  const float whole = 12582912.0f;
  const float above = hardware_log2(normal) + whole;
  const float power = above - (denormal ? whole + 23.0f : whole);
  const float m = __int_as_float(__float_as_int(normal) -
                                 (__float_as_int(above) << 23));
  const float f = smaller(m - 1, 1.0f);
  float of = fma(f, -0.0762306228f, 0.129055113f);
  of = fma(f, of, -0.132429838f);
  of = fma(f, of, 0.141816333f);
  of = fma(f, of, -0.166090563f);
  of = fma(f, of, 0.200019851f);
  of = fma(f, of, -0.250015855f);
  of = fma(f, of, 0.333333254f);
  of = fma(f, of, -0.499999881f);
  return fma(power, 0.693147182f, fma(f, f * of, f));
}
)cu"}},
      {"xlogy", {{"natural_log"}, R"cu(T xlogy(T x, T y) {
  const T product = x * natural_log(y);
  return x == 0 && y == y ? T(0) : product;
}
)cu"}},
      {"remainder_of_floats", {{}, R"cu(T remainder_of_floats(T x, T y) {
  const T rest = fmod(x, y);
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}
)cu"}},
      {"remainder_of_integers", {{}, R"cu(T remainder_of_integers(T x, T y) {
  if (y == 0) return 0;
  const T rest = x % y;
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}
)cu"}},
      {"floor_of_floats", {{}, R"cu(T floor_of_floats(T x, T y) {
  if (y == 0) return x / y;
  const T rest = fmod(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign(T(0), x / y);
  const T whole = floor(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}
)cu"}},
      {"in_bounds_of_integers",
       {{}, R"cu(bool in_bounds_of_integers(T index, T low, T high) {
  const bool inside = index >= low && index < high;
  // As the framework's kernels do: the call ends with a device-side assertion.
  if (!inside) __assertfail("index out of bounds", "weft", 0, "kernel", 1);
  return inside;
}
)cu"}},
      {"floor_of_integers", {{}, R"cu(T floor_of_integers(T x, T y) {
  if (y == 0) return 0;
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
)cu"}},
  };
  return table;
}

void print_helper(const std::string& name, std::set<std::string>& printed,
                  std::string& text) {
  const auto found = helpers_by_name().find(name);
  if (found == helpers_by_name().end() || !printed.insert(name).second) return;
  for (const std::string& need : found->second.needs) {
    print_helper(need, printed, text);
  }
  text += "template <class T>\n__device__ __forceinline__ " +
          found->second.text + "\n";
}

std::string helper_name(const std::string& function, DType dtype) {
  const char* of = is_float(dtype) ? "_of_floats" : "_of_integers";
  if (function == "relu" && is_float(dtype)) return "positive_part";
  if (function == "log") return "natural_log";
  if (function == "in_bounds") return "in_bounds_of_integers";
  if (function == "remainder") return "remainder" + std::string(of);
  if (function == "div_floor") return "floor" + std::string(of);
  return function;
}

}  // namespace

std::optional<std::string> cuda_call(const std::string& function, DType dtype,
                                     const std::vector<std::string>& arguments,
                                     std::set<std::string>& helpers) {
  const std::string name = helper_name(function, dtype);
  const bool truth = dtype == DType::boolean;
  const std::string rounded = is_float(dtype) ? rounded_name(function) : "";
  if (!rounded.empty()) {
    return rounded + (dtype == DType::f64 ? "<double>(" : "<float>(") +
           arguments[0] + ", " + arguments[function == "square" ? 0 : 1] + ")";
  }
  if (truth && function == "bitwise_not") return "!" + arguments[0];
  if (auto text = spelled(Language::cuda, name, dtype, arguments)) return text;
  const bool has = helpers_by_name().contains(name) &&
                   (is_float(dtype) || name.ends_with("_of_integers"));
  if (!has) return std::nullopt;
  helpers.insert(name);
  std::string text = name + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text += (i == 0 ? "" : ", ") + arguments[i];
  }
  return text + ")";
}

std::string cuda_helpers(const std::set<std::string>& helpers) {
  std::set<std::string> printed;
  std::string text;
  for (const std::string& name : helpers) print_helper(name, printed, text);
  return text;
}

}  // namespace weft
