// The range of a flag's number.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>

namespace weft {

/// CLI::Range, and no "nan": no comparison with that holds, so that Range lets
/// it through, and a limit that is no number is none.
inline CLI::Validator number_range(double low, double high) {
  const CLI::Range range(low, high);
  CLI::Validator result = range;
  result.operation([range](std::string& text) {
    std::string why = range(text);
    double value = 0;
    const bool is_none =
        CLI::detail::lexical_cast(text, value) && std::isnan(value);
    return why.empty() && is_none ? "Value " + text + " is no number" : why;
  });
  return result;
}

}  // namespace weft
