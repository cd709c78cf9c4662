#include "compiler/loops/scalar_functions.hpp"

namespace weft {
namespace {

enum class Types { any, integers, float32, floats };

/// Spelled with {0}, {1}, … for the arguments; "": the language has none.
/// The `cpu` prelude's vectors have operators, and functions for the rest;
/// NVRTC knows the mathematical functions of float and double by one name.
struct Row {
  std::string_view function;
  Types types;
  std::string_view cpu;
  std::string_view triton;
  std::string_view cuda;
};

// clang-format off
const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      // In every type.
      {"add", Types::any, "{0} + {1}", "{0} + {1}", ""},
      {"sub", Types::any, "{0} - {1}", "{0} - {1}", ""},
      {"mul", Types::any, "{0} * {1}", "{0} * {1}", ""},
      {"product", Types::any, "{0} * {1}", "{0} * {1}", "{0} * {1}"},
      {"eq", Types::any, "{0} == {1}", "{0} == {1}", "{0} == {1}"},
      {"ne", Types::any, "{0} != {1}", "{0} != {1}", "{0} != {1}"},
      {"lt", Types::any, "{0} < {1}", "{0} < {1}", "{0} < {1}"},
      {"le", Types::any, "{0} <= {1}", "{0} <= {1}", "{0} <= {1}"},
      {"gt", Types::any, "{0} > {1}", "{0} > {1}", "{0} > {1}"},
      {"ge", Types::any, "{0} >= {1}", "{0} >= {1}", "{0} >= {1}"},
      {"logical_and", Types::any, "{0} & {1}", "{0} & {1}", "{0} && {1}"},
      {"logical_or", Types::any, "{0} | {1}", "{0} | {1}", "{0} || {1}"},
      {"logical_xor", Types::any, "{0} ^ {1}", "{0} ^ {1}", "{0} != {1}"},
      {"logical_not", Types::any, "", "{0} == 0", "!{0}"},
      {"bitwise_and", Types::any, "{0} & {1}", "{0} & {1}", "{0} & {1}"},
      {"bitwise_or", Types::any, "{0} | {1}", "{0} | {1}", "{0} | {1}"},
      {"bitwise_xor", Types::any, "{0} ^ {1}", "{0} ^ {1}", "{0} ^ {1}"},
      {"select", Types::any, "", "tl.where({0}, {1}, {2})", "{0} ? {1} : {2}"},
      // Triton's own minus subtracts from 0: it gives 0 for 0, and eager -0.
      {"neg", Types::floats, "", "{0} * -1.0", ""},
      {"neg", Types::any, "", "-{0}", "-{0}"},
      {"abs", Types::any, "", "tl.abs({0})", ""},
      {"square", Types::any, "", "{0} * {0}", ""},
      {"div", Types::any, "{0} / {1}", "", "{0} / {1}"},
      {"sign", Types::any, "", "", "({0} > 0) - ({0} < 0)"},
      // Of integers only: NaN is nothing that they have.
      {"maximum", Types::integers, "", "tl.maximum({0}, {1})", "{0} > {1} ? {0} : {1}"},
      {"minimum", Types::integers, "", "tl.minimum({0}, {1})", "{0} < {1} ? {0} : {1}"},
      {"relu", Types::integers, "", "tl.maximum({0}, 0)", "{0} > 0 ? {0} : 0"},
      {"bitwise_not", Types::integers, "", "~{0}", "~{0}"},
      {"fmod", Types::integers, "", "{0} % {1}", "{1} == 0 ? 0 : {0} % {1}"},
      {"remainder", Types::integers, "", "({0} % {1} + {1}) % {1}", ""},
      {"div_trunc", Types::integers, "", "{0} // {1}", "{1} == 0 ? 0 : {0} / {1}"},
      {"div_floor", Types::integers, "", "({0} - ({0} % {1} + {1}) % {1}) // {1}", ""},
      {"add", Types::integers, "", "", "{0} + {1}"},
      {"sub", Types::integers, "", "", "{0} - {1}"},
      {"mul", Types::integers, "", "", "{0} * {1}"},
      {"square", Types::integers, "", "", "{0} * {0}"},
      {"abs", Types::integers, "", "", "{0} < 0 ? -{0} : {0}"},
      // Of float32, whose `/` is div.full.f32 in Triton: off by up to two units,
      // where PyTorch divides as IEEE 754 wants it (div.rn.f32).
      {"div", Types::float32, "", "tl.div_rn({0}, {1})", ""},
      {"reciprocal", Types::float32, "", "tl.div_rn(1.0, {0})", ""},
      // Triton's sqrt_rn takes float32 only, and of float64 sqrt rounds correctly.
      {"sqrt", Types::float32, "", "tl.sqrt_rn({0})", ""},
      {"rsqrt", Types::float32, "", "1.0 / tl.sqrt_rn({0})", ""},
      // Of floating-point numbers, right in float64 too.
      {"div", Types::floats, "", "{0} / {1}", ""},
      {"reciprocal", Types::floats, "", "1.0 / {0}", "1 / {0}"},
      {"maximum", Types::floats, "", "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "larger({0}, {1})"},
      {"minimum", Types::floats, "", "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "smaller({0}, {1})"},
      {"relu", Types::floats, "", "tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)", ""},
      {"exp", Types::floats, "", "tl.exp({0})", "exp({0})"},
      {"exp2", Types::floats, "", "tl.exp2({0})", "exp2({0})"},
      {"log", Types::floats, "", "tl.log({0})", ""},
      {"log2", Types::floats, "", "tl.log2({0})", "log2({0})"},
      // Triton's floor, ceil and sin take subnormal numbers for zeros.
      {"floor", Types::floats, "", "tl.where(tl.floor({0}) > {0}, -1.0, tl.floor({0}))", "floor({0})"},
      {"ceil", Types::floats, "", "tl.where(tl.ceil({0}) < {0}, 1.0, tl.ceil({0}))", "ceil({0})"},
      {"sqrt", Types::floats, "", "tl.sqrt({0})", "sqrt({0})"},
      {"rsqrt", Types::floats, "", "1.0 / tl.sqrt({0})", "1 / sqrt({0})"},
      {"sin", Types::floats, "", "tl.where(tl.abs({0}) < 1e-19, {0}, tl.sin({0}))", "sin({0})"},
      {"cos", Types::floats, "", "tl.cos({0})", "cos({0})"},
      {"isnan", Types::floats, "", "{0} != {0}", "{0} != {0}"},
      {"isinf", Types::floats, "", "tl.abs({0}) == float(\"inf\")", "fabs({0}) == INFINITE"},
      {"sigmoid", Types::floats, "", "1.0 / (1.0 + tl.exp(-{0}))", "1 / (1 + exp(-{0}))"},
      {"silu", Types::floats, "", "{0} / (1.0 + tl.exp(-{0}))", "{0} / (1 + exp(-{0}))"},
      {"finite_or_zero", Types::floats, "", "tl.where(tl.abs({0}) < float(\"inf\"), {0}, 0.0)", "is_finite({0}) ? {0} : 0"},
      {"finite_or_zero_keep_nan", Types::floats, "", "tl.where(tl.abs({0}) == float(\"inf\"), 0.0, {0})", "fabs({0}) == INFINITE ? 0 : {0}"},
      {"sign", Types::floats, "", "({0} > 0).to({0}.dtype) - ({0} < 0).to({0}.dtype)", ""},
      {"trunc", Types::floats, "", "tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))", "trunc({0})"},
      {"leaky_relu", Types::floats, "", "tl.where({0} > 0, {0}, {0} * {1})", "{0} > 0 ? {0} : {0} * {1}"},
      {"threshold", Types::floats, "", "tl.where({0} <= {1}, {2}, {0})", "{0} <= {1} ? {2} : {0}"},
      {"hardshrink", Types::floats, "", "tl.where(tl.abs({0}) <= {1}, 0.0, {0})", "fabs({0}) <= {1} ? 0 : {0}"},
      {"abs", Types::floats, "", "", "fabs({0})"},
      {"expm1", Types::floats, "", "", "expm1({0})"},
      {"log10", Types::floats, "", "", "log10({0})"},
      {"log1p", Types::floats, "", "", "log1p({0})"},
      {"tan", Types::floats, "", "", "tan({0})"},
      {"asin", Types::floats, "", "", "asin({0})"},
      {"acos", Types::floats, "", "", "acos({0})"},
      {"atan", Types::floats, "", "", "atan({0})"},
      {"atan2", Types::floats, "", "", "atan2({0}, {1})"},
      {"sinh", Types::floats, "", "", "sinh({0})"},
      {"cosh", Types::floats, "", "", "cosh({0})"},
      {"tanh", Types::floats, "", "", "tanh({0})"},
      {"erf", Types::floats, "", "", "erf({0})"},
      {"erfc", Types::floats, "", "", "erfc({0})"},
      {"pow", Types::floats, "", "", "pow({0}, {1})"},
      {"fmod", Types::floats, "", "", "fmod({0}, {1})"},
      {"round", Types::floats, "", "", "rint({0})"},
      {"div_trunc", Types::floats, "", "", "trunc({0} / {1})"},
      {"clamp", Types::floats, "", "", "smaller(larger({0}, {1}), {2})"},
  };
  return table;
}
// clang-format on

bool fits(Types types, DType dtype) {
  switch (types) {
    case Types::any:
      return true;
    case Types::integers:
      return !is_float(dtype);
    case Types::float32:
      return dtype == DType::f32;
    case Types::floats:
      break;
  }
  return is_float(dtype);
}

std::string_view column(const Row& row, Language language) {
  switch (language) {
    case Language::cpu:
      return row.cpu;
    case Language::triton:
      return row.triton;
    case Language::cuda:
      break;
  }
  return row.cuda;
}

std::string filled(std::string_view spelling,
                   const std::vector<std::string>& arguments) {
  std::string text;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] == '{') {
      text += arguments.at(static_cast<std::size_t>(spelling[i + 1] - '0'));
      i += 2;
    } else {
      text += spelling[i];
    }
  }
  return text;
}

}  // namespace

std::optional<std::string> spelled(Language language, std::string_view function,
                                   DType dtype,
                                   const std::vector<std::string>& arguments) {
  for (const Row& row : rows()) {
    const std::string_view spelling = column(row, language);
    if (row.function != function || spelling.empty() ||
        !fits(row.types, dtype)) {
      continue;
    }
    return filled(spelling, arguments);
  }
  return std::nullopt;
}

}  // namespace weft
