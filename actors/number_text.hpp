// A number as text.
#pragma once

#include <cstdio>
#include <string>

namespace weft {

/// By a printf format for one double.
inline std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace weft
