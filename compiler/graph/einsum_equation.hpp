// einsum's equation, "ij,jk->ik": a letter for each dimension.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

struct EinsumEquation {
  std::vector<std::string> operands;
  std::string result;
};

/// Nothing where the result is left to a rule, or dimensions to dots.
std::optional<EinsumEquation> parse_einsum(std::string equation);

/// Such an operand is read along a diagonal.
bool has_twice(std::string labels);

}  // namespace weft
