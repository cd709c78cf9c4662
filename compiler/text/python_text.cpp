#include "compiler/text/python_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace weft {

namespace {

/// Shortest text that reads back to the same double, and as a float.
std::string python_float(double number) {
  if (std::isnan(number)) return "float('nan')";
  if (std::isinf(number)) return number > 0 ? "float('inf')" : "float('-inf')";
  std::array<char, 32> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  std::string text(digits.data(), end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

bool is_floating(std::string_view dtype) {
  return dtype == "float16" || dtype == "bfloat16" || dtype == "float32";
}

std::string python_symbol(const Symbol& symbol, Precision precision) {
  if (symbol.kind == "device") {
    return "torch.device(" + python_string(symbol.value) + ")";
  }
  if (symbol.kind == "dtype" && precision == Precision::wide &&
      is_floating(symbol.value)) {
    return "torch.float64";
  }
  return "torch." + symbol.value;
}

}  // namespace

std::string python_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += {'\\', 'x', kHex[(c >> 4) & 0xf], kHex[c & 0xf]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string python_text_block(std::string_view text) {
  const bool readable = text.find("'''") == std::string_view::npos &&
                        text.find('\r') == std::string_view::npos &&
                        text.find('\0') == std::string_view::npos &&
                        !text.ends_with('\'') && !text.ends_with('\\');
  if (!readable) return python_string(text);
  return "r'''" + std::string(text) + "'''";
}

std::string python_value(const Arg& arg, Precision precision) {
  struct Printer {
    Precision precision;
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool value) const {
      return value ? "True" : "False";
    }
    std::string operator()(std::int64_t value) const {
      return std::to_string(value);
    }
    std::string operator()(double value) const { return python_float(value); }
    std::string operator()(const std::string& value) const {
      return python_string(value);
    }
    std::string operator()(const NodeRef& ref) const { return ref.name; }
    std::string operator()(const Symbol& symbol) const {
      return python_symbol(symbol, precision);
    }
    std::string operator()(const Arg::List& list) const {
      std::string text;
      for (const Arg& item : list) {
        text += (text.empty() ? "" : ", ") + python_value(item, precision);
      }
      return "[" + text + "]";
    }
  };
  return std::visit(Printer{precision}, arg.value);
}

std::string python_arguments(const Node& node, Precision precision) {
  std::string text;
  for (const Arg& arg : node.args) {
    text += (text.empty() ? "" : ", ") + python_value(arg, precision);
  }
  for (const auto& [key, arg] : node.kwargs) {
    text += text.empty() ? "" : ", ";
    text += key + "=" + python_value(arg, precision);
  }
  return text;
}

std::string python_call(const Node& node, Precision precision) {
  if (node.target == "getitem") {
    return python_value(node.args[0]) + "[" + python_value(node.args[1]) + "]";
  }
  return "torch.ops." + node.target + "(" + python_arguments(node, precision) +
         ")";
}

std::string python_tuple(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "(" + text + (numbers.size() == 1 ? ",)" : ")");
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace weft
