#include "compiler/graph/einsum_equation.hpp"

#include <algorithm>

namespace weft {

std::optional<EinsumEquation> parse_einsum(std::string equation) {
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.contains('.')) return std::nullopt;
  EinsumEquation parsed;
  parsed.result = equation.substr(arrow + 2);
  for (std::size_t begin = 0; begin <= arrow;) {
    const std::size_t end = std::min(equation.find(',', begin), arrow);
    parsed.operands.push_back(equation.substr(begin, end - begin));
    begin = end + 1;
  }
  return parsed;
}

bool has_twice(std::string labels) {
  std::ranges::sort(labels);
  return std::ranges::adjacent_find(labels) != labels.end();
}

}  // namespace weft
