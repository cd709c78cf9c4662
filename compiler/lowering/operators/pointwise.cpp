// Pointwise operators: one entry each. What a function computes, lane by lane,
// is in the prelude (cpu_prelude.cpp).
#include <cmath>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

// The type that comparing a and b is done in: a tensor with dimensions
// outweighs one without, and that a number, unless it is of a lower kind.
int kind(DType dtype) {
  if (is_float(dtype)) return 2;
  return dtype == DType::boolean ? 0 : 1;
}

DType wider(DType a, DType b) {
  if (kind(a) != kind(b)) return kind(a) > kind(b) ? a : b;
  return element_bytes(a) >= element_bytes(b) ? a : b;
}

DType promoted(const Call& call, const Virtual& a, const Virtual& b) {
  const auto rank = [&](std::size_t i, const Virtual& v, const char* name) {
    if (!call.is_tensor(i, name)) return 0;
    return v.shape().empty() ? 1 : 2;
  };
  const int of_a = rank(0, a, "self");
  const int of_b = rank(1, b, "other");
  if (of_a == of_b) return wider(a.dtype(), b.dtype());
  const Virtual& high = of_a > of_b ? a : b;
  const Virtual& low = of_a > of_b ? b : a;
  if (kind(low.dtype()) <= kind(high.dtype())) return high.dtype();
  const bool number = std::min(of_a, of_b) == 0;
  return number && is_float(low.dtype()) ? DType::f32 : low.dtype();
}

// Arguments cast to the result's type; `is_exact`: where that is a half,
// numbers have it, too, and not a longer one's digits.
Rule same_type(std::string function, int arity, bool is_exact = false) {
  return [=](const Call& call) -> Values {
    static const char* const names[] = {"self", "other", "third"};
    const DType dtype = call.result().dtype;
    std::vector<Virtual> arguments;
    for (int i = 0; i < arity; ++i) {
      arguments.push_back(call.in().cast(call.tensor(i, names[i]), dtype));
      if (is_exact) arguments.back() = call.in().as_argument(arguments.back());
    }
    return {call.in().pointwise(function, dtype, arguments)};
  };
}

Rule float_only(std::string function, int arity) {
  return [=, rule = same_type(function, arity)](const Call& call) -> Values {
    if (!is_float(call.result().dtype)) {
      throw Unsupported{call.node().target + " of integers"};
    }
    return rule(call);
  };
}

Rule comparison(std::string function) {
  return [=](const Call& call) -> Values {
    const Virtual a = call.in().as_argument(call.tensor(0, "self"));
    const Virtual b = call.in().as_argument(call.tensor(1, "other"));
    DType dtype = promoted(call, a, b);
    // A lane that is true is -1: in truth values, the order would be reversed.
    if (dtype == DType::boolean) dtype = DType::i32;
    return {call.in().pointwise(
        function, DType::boolean,
        {call.in().cast(a, dtype), call.in().cast(b, dtype)})};
  };
}

Rule logical(std::string function, int arity) {
  return [=](const Call& call) -> Values {
    std::vector<Virtual> arguments;
    for (int i = 0; i < arity; ++i) {
      arguments.push_back(call.in().cast(
          call.tensor(i, i == 0 ? "self" : "other"), DType::boolean));
    }
    return {call.in().pointwise(function, DType::boolean, arguments)};
  };
}

// a ± alpha · b
Rule scaled(std::string function, bool swapped) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    Virtual a = in.cast(call.tensor(0, "self"), dtype);
    Virtual b = in.cast(call.tensor(1, "other"), dtype);
    if (swapped) std::swap(a, b);
    const double alpha = call.number(2, "alpha", 1);
    if (alpha != 1) {
      b = in.pointwise("product", dtype, {b, in.number(dtype, alpha)});
    }
    return {in.pointwise(function, dtype, {a, b})};
  };
}

// Dividing an integer by zero, or the smallest one by -1, stops the process;
// the framework raises. So only by numbers that cannot do either.
void check_divisor(const Call& call) {
  if (is_float(call.result().dtype)) return;
  const bool tensor = call.is_tensor(1, "other");
  const std::int64_t divisor = tensor ? 0 : call.integer(1, "other", 0);
  if (divisor == 0 || divisor == -1) {
    throw Unsupported{call.node().target + " of integers, by such a divisor"};
  }
}

Rule remainder(std::string function) {
  return [=, rule = same_type(function, 2, true)](const Call& call) -> Values {
    check_divisor(call);
    return rule(call);
  };
}

Values divide(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual a = in.cast(call.tensor(0, "self"), dtype);
  const Virtual b = in.cast(call.tensor(1, "other"), dtype);
  const std::string mode = call.text(2, "rounding_mode");
  if (mode.empty()) return {in.pointwise("div", dtype, {a, b})};
  check_divisor(call);
  return {
      in.pointwise(mode == "floor" ? "div_floor" : "div_trunc", dtype, {a, b})};
}

Values power(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual base = in.cast(call.tensor(0, "self"), dtype);
  const auto unary = [&](const char* name) -> Values {
    return {in.pointwise(name, dtype, {base})};
  };
  if (!call.is_tensor(1, "exponent")) {
    const double exponent = call.number(1, "exponent", 1);
    if (exponent == 2) return {in.pointwise("mul", dtype, {base, base})};
    if (exponent == 3) {
      return {in.pointwise("mul", dtype,
                           {in.pointwise("mul", dtype, {base, base}), base})};
    }
    if (exponent == 1) return {base};
    if (is_float(dtype) && exponent == 0.5) return unary("sqrt");
    if (is_float(dtype) && exponent == -0.5) return unary("rsqrt");
    if (is_float(dtype) && exponent == -1) return unary("reciprocal");
  }
  if (!is_float(dtype)) throw Unsupported{"pow of integers"};
  const Virtual exponent = in.cast(call.tensor(1, "exponent"), dtype);
  return {in.pointwise("pow", dtype, {base, exponent})};
}

Values clamp(const Call& call, bool low, bool high) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  Virtual value = in.cast(call.tensor(0, "self"), dtype);
  const std::size_t at_high = low ? 2 : 1;
  if (low && call.given(1, "min")) {
    value = in.pointwise("maximum", dtype,
                         {value, in.cast(call.tensor(1, "min"), dtype)});
  }
  if (high && call.given(at_high, "max")) {
    value = in.pointwise("minimum", dtype,
                         {value, in.cast(call.tensor(at_high, "max"), dtype)});
  }
  return {value};
}

Values hardtanh(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual low = in.number(dtype, call.number(1, "min_val", -1));
  const Virtual high = in.number(dtype, call.number(2, "max_val", 1));
  const Virtual raised = in.pointwise(
      "maximum", dtype, {in.cast(call.tensor(0, "self"), dtype), low});
  return {in.pointwise("minimum", dtype, {raised, high})};
}

Values where(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  return {in.pointwise("select", dtype,
                       {in.cast(call.tensor(0, "condition"), DType::boolean),
                        in.cast(call.tensor(1, "self"), dtype),
                        in.cast(call.tensor(2, "other"), dtype)})};
}

Values masked_fill(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  return {in.pointwise("select", dtype,
                       {in.cast(call.tensor(1, "mask"), DType::boolean),
                        in.cast(call.tensor(2, "value"), dtype),
                        in.cast(call.tensor(0, "self"), dtype)})};
}

// An activation with numbers behind its tensor.
struct Parameter {
  const char* name;
  double otherwise;
  bool compared = false;  ///< with the elements, in their type
};

Rule activation(std::string function, std::vector<Parameter> parameters) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (!is_float(dtype)) throw Unsupported{call.node().target};
    std::vector<Virtual> arguments = {call.tensor(0, "self")};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Virtual number = in.number(
          dtype,
          call.number(i + 1, parameters[i].name, parameters[i].otherwise));
      arguments.push_back(parameters[i].compared ? in.as_argument(number)
                                                 : number);
    }
    return {in.pointwise(function, dtype, arguments)};
  };
}

Values gelu(const Call& call) {
  const DType dtype = call.result().dtype;
  const bool tanh = call.text(1, "approximate") == "tanh";
  return {call.in().pointwise(tanh ? "gelu_tanh" : "gelu", dtype,
                              {call.tensor(0, "self")})};
}

// addcmul, addcdiv: self + value · (first op second).
Rule add_scaled(std::string function) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    Virtual term = in.pointwise(function, dtype,
                                {in.cast(call.tensor(1, "tensor1"), dtype),
                                 in.cast(call.tensor(2, "tensor2"), dtype)});
    const double value = call.number(3, "value", 1);
    if (value != 1) {
      term = in.pointwise("product", dtype, {in.number(dtype, value), term});
    }
    return {in.pointwise("add", dtype,
                         {in.cast(call.tensor(0, "self"), dtype), term})};
  };
}

void add_arithmetic(RuleTable& table) {
  table["add"] = scaled("add", false);
  table["sub"] = scaled("sub", false);
  table["rsub"] = scaled("sub", true);
  table["mul"] = same_type("mul", 2);
  table["div"] = divide;
  table["pow"] = power;
  table["minimum"] = same_type("minimum", 2);
  table["maximum"] = same_type("maximum", 2);
  table["fmod"] = remainder("fmod");
  table["remainder"] = remainder("remainder");
  table["atan2"] = float_only("atan2", 2);
  table["addcmul"] = add_scaled("product");
  table["addcdiv"] = add_scaled("div");
  table["clamp"] = [](const Call& c) { return clamp(c, true, true); };
  table["clamp_min"] = [](const Call& c) { return clamp(c, true, false); };
  table["clamp_max"] = [](const Call& c) { return clamp(c, false, true); };
  for (const char* name : {"neg", "abs", "relu", "sign", "square"}) {
    table[name] = same_type(name, 1);
  }
}

void add_functions(RuleTable& table) {
  for (const char* name :
       {"exp",  "exp2",  "expm1", "log",   "log1p",      "log2",    "log10",
        "sqrt", "rsqrt", "sin",   "cos",   "tan",        "asin",    "acos",
        "atan", "sinh",  "cosh",  "tanh",  "reciprocal", "sigmoid", "erf",
        "erfc", "floor", "ceil",  "round", "trunc",      "silu",    "mish"}) {
    table[name] = float_only(name, 1);
  }
  table["round.decimals"] = [](const Call& call) -> Values {
    throw Unsupported{call.node().target};
  };
  table["gelu"] = gelu;
  table["hardtanh"] = hardtanh;
  table["relu6"] = activation("relu6", {});
  table["hardswish"] = activation("hardswish", {});
  table["hardsigmoid"] = activation("hardsigmoid", {});
  table["selu"] = activation("selu", {});
  table["log_sigmoid"] = activation("log_sigmoid", {});
  table["leaky_relu"] = activation("leaky_relu", {{"negative_slope", 0.01}});
  table["elu"] =
      activation("elu", {{"alpha", 1}, {"scale", 1}, {"input_scale", 1}});
  table["softplus"] = activation("softplus", {{"beta", 1}, {"threshold", 20}});
  table["threshold"] =
      activation("threshold", {{"threshold", 0, true}, {"value", 0}});
  table["softshrink"] = activation("softshrink", {{"lambd", 0.5, true}});
  table["hardshrink"] = activation("hardshrink", {{"lambd", 0.5, true}});
  table["xlogy"] = float_only("xlogy", 2);
}

}  // namespace

void add_pointwise_rules(RuleTable& table) {
  add_arithmetic(table);
  add_functions(table);
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    table[name] = comparison(name);
  }
  table["logical_and"] = logical("logical_and", 2);
  table["logical_or"] = logical("logical_or", 2);
  table["logical_xor"] = logical("logical_xor", 2);
  table["logical_not"] = logical("logical_not", 1);
  table["bitwise_and"] = same_type("bitwise_and", 2);
  table["bitwise_or"] = same_type("bitwise_or", 2);
  table["bitwise_xor"] = same_type("bitwise_xor", 2);
  table["bitwise_not"] = same_type("bitwise_not", 1);
  table["where.self"] = where;
  table["where.ScalarSelf"] = where;
  table["where.ScalarOther"] = where;
  table["masked_fill"] = masked_fill;
  for (const char* name : {"isnan", "isinf"}) {
    table[name] = [=](const Call& call) -> Values {
      return {
          call.in().pointwise(name, DType::boolean, {call.tensor(0, "self")})};
    };
  }
}

}  // namespace weft
