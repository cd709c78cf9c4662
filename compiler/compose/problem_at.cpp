#include "compiler/compose/problem_at.hpp"

#include "embedded/compiler/compose/python/at_size.py"

namespace weft {

std::string problem_at(std::string_view problem, const Sizes& sizes,
                       std::span<const SymbolicDim> dims) {
  std::string numbers, pairs;
  for (const std::int64_t size : sizes) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(size);
  }
  for (const SymbolicDim& symbol : dims) {
    pairs += std::string(pairs.empty() ? "" : ", ") + "(" +
             std::to_string(symbol.input) + ", " + std::to_string(symbol.dim) +
             ")";
  }
  return std::string(problem) + "\n\nWEFT_SIZES = [" + numbers +
         "]\nWEFT_PLACES = [" + pairs + "]\n" +
         std::string(embedded::compiler_compose_python_at_size);
}

}  // namespace weft
