// Pointwise operators: one entry each. What a function computes, lane by lane,
// is in the prelude (prelude/prelude.cpp).
#include <cmath>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

const std::vector<Parameter> kOperands = {
    {0, "self"}, {1, "other"}, {2, "third"}};

std::vector<Parameter> first_operands(int count) {
  return {kOperands.begin(), kOperands.begin() + count};
}

// Operands in the result's type.
Rule same_type(std::string function, int arity,
               ScalarOperands scalars = ScalarOperands::converted) {
  return [=](const Call& call) -> Values {
    return {call.in().pointwise(function, call.result().dtype,
                                call.operands(first_operands(arity), scalars))};
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
    const auto operands = first_operands(2);
    DType dtype = call.common_type(operands);
    // A lane that is true is -1: in truth values, the order would be reversed.
    if (dtype == DType::boolean) dtype = DType::i32;
    return {call.in().pointwise(function, DType::boolean,
                                call.operands_as(dtype, operands))};
  };
}

Rule logical(std::string function, int arity) {
  return [=](const Call& call) -> Values {
    return {call.in().pointwise(
        function, DType::boolean,
        call.operands_as(DType::boolean, first_operands(arity)))};
  };
}

// a ± alpha · b
Rule scaled(std::string function, bool swapped) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    auto operands = call.operands(first_operands(2), ScalarOperands::added);
    if (swapped) std::swap(operands[0], operands[1]);
    if (call.number(2, "alpha", 1) != 1) {
      const Virtual alpha =
          call.operands({{2, "alpha"}}, ScalarOperands::added)[0];
      operands[1] = in.pointwise("product", dtype, {operands[1], alpha});
    }
    return {in.pointwise(function, dtype, operands)};
  };
}

// Dividing an integer by zero, or the smallest one by -1, stops the process;
// PyTorch raises. So only by numbers that cannot do either.
void check_divisor(const Call& call) {
  if (is_float(call.result().dtype)) return;
  const bool tensor = call.is_tensor(1, "other");
  const std::int64_t divisor = tensor ? 0 : call.integer(1, "other", 0);
  if (divisor == 0 || divisor == -1) {
    throw Unsupported{call.node().target + " of integers, by such a divisor"};
  }
}

Rule remainder(std::string function) {
  return [=, rule = same_type(function, 2)](const Call& call) -> Values {
    check_divisor(call);
    return rule(call);
  };
}

Values divide(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const auto operands =
      call.operands(first_operands(2), ScalarOperands::multiplied);
  const std::string mode = call.text(2, "rounding_mode");
  if (mode.empty()) return {in.pointwise("div", dtype, operands)};
  check_divisor(call);
  // On a processor, eager divides by a scalar in float32.
  const bool has_divisors =
      call.is_tensor(1, "other") &&
      (!operands[1].shape().empty() || in.options().eager_on_gpu);
  if (mode == "trunc" && is_float(dtype) && has_divisors) {
    // What eager truncates is the quotient rounded to the type.
    const Virtual quotient = in.pointwise("div", dtype, operands);
    return {in.pointwise("trunc", dtype, {call.as_result(quotient)})};
  }
  return {in.pointwise(mode == "floor" ? "div_floor" : "div_trunc", dtype,
                       operands)};
}

Values power(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual base = call.operands({{0, "self"}})[0];
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
  const Virtual exponent = call.operands({{1, "exponent"}})[0];
  return {in.pointwise("pow", dtype, {base, exponent})};
}

Values clamp(const Call& call, bool low, bool high) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  Virtual value = call.operands({{0, "self"}})[0];
  const std::size_t at_high = low ? 2 : 1;
  if (low && call.given(1, "min")) {
    value =
        in.pointwise("maximum", dtype, {value, call.operands({{1, "min"}})[0]});
  }
  if (high && call.given(at_high, "max")) {
    value = in.pointwise("minimum", dtype,
                         {value, call.operands({{at_high, "max"}})[0]});
  }
  return {value};
}

Values hardtanh(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Virtual low =
      call.constant(1, "min_val", -1, ScalarOperands::converted);
  const Virtual high =
      call.constant(2, "max_val", 1, ScalarOperands::converted);
  const Virtual raised =
      in.pointwise("maximum", dtype, {call.operands({{0, "self"}})[0], low});
  return {in.pointwise("minimum", dtype, {raised, high})};
}

Virtual condition(const Call& call, std::size_t position, const char* name) {
  return call.operands_as(DType::boolean, {{position, name}})[0];
}

Values where(const Call& call) {
  const auto choices = call.operands({{1, "self"}, {2, "other"}});
  return {call.in().pointwise(
      "select", call.result().dtype,
      {condition(call, 0, "condition"), choices[0], choices[1]})};
}

Values masked_fill(const Call& call) {
  const auto choices = call.operands({{2, "value"}, {0, "self"}});
  return {call.in().pointwise(
      "select", call.result().dtype,
      {condition(call, 1, "mask"), choices[0], choices[1]})};
}

// An activation with numbers behind its tensor.
struct Constant {
  const char* name;
  double otherwise;
  ScalarOperands scalars = ScalarOperands::parameter;
};

Rule activation(std::string function, std::vector<Constant> constants) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    if (!is_float(dtype)) throw Unsupported{call.node().target};
    std::vector<Virtual> arguments = call.operands({{0, "self"}});
    for (std::size_t i = 0; i < constants.size(); ++i) {
      const Constant& constant = constants[i];
      arguments.push_back(call.constant(i + 1, constant.name,
                                        constant.otherwise, constant.scalars));
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

// addcmul, addcdiv: self + (value · first) op second, in that order.
Rule add_scaled(std::string function) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const DType dtype = call.result().dtype;
    auto operands =
        call.operands({{0, "self"}, {1, "tensor1"}, {2, "tensor2"}});
    const double value = call.number(3, "value", 1);
    if (value != 1) {
      operands[1] = in.pointwise("product", dtype,
                                 {in.number(dtype, value), operands[1]});
    }
    const Virtual term =
        in.pointwise(function, dtype, {operands[1], operands[2]});
    return {in.pointwise("add", dtype, {operands[0], term})};
  };
}

void add_arithmetic(RuleTable& table) {
  table["add"] = scaled("add", false);
  table["sub"] = scaled("sub", false);
  table["rsub"] = scaled("sub", true);
  table["mul"] = same_type("mul", 2, ScalarOperands::multiplied);
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
  table["threshold"] = activation(
      "threshold", {{"threshold", 0, ScalarOperands::converted}, {"value", 0}});
  table["softshrink"] =
      activation("softshrink", {{"lambd", 0.5, ScalarOperands::threshold}});
  table["hardshrink"] =
      activation("hardshrink", {{"lambd", 0.5, ScalarOperands::converted}});
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
