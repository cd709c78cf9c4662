// A number as text.
#pragma once

#include <string>

#include "messages/formatted.hpp"

namespace weft {

/// By a printf format for one double.
inline std::string number(double value, const char* format) {
  return formatted(format, value);
}

}  // namespace weft
