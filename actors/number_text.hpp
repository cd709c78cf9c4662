// Numbers as text.
#pragma once

#include <concepts>
#include <string>

#include "messages/formatted.hpp"

namespace weft {

/// By a printf format for one double.
inline std::string number(double value, const char* format) {
  return formatted(format, value);
}

/// "1 kernel", "2 kernels".
std::string counted(std::integral auto count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace weft
