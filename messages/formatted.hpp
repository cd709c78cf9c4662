// Values as text.
#pragma once

#include <cstdio>
#include <string>

namespace weft {

/// By a printf format. A text of more than 255 bytes is cut.
inline std::string formatted(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace weft
