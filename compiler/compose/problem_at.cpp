#include "compiler/compose/problem_at.hpp"

#include "embedded/compiler/compose/python/at_size.py"

namespace weft {

std::string problem_at(std::string_view problem, std::int64_t size, int input,
                       int dim) {
  return std::string(problem) + "\n\nWEFT_SIZE = " + std::to_string(size) +
         "\nWEFT_PLACE = (" + std::to_string(input) + ", " +
         std::to_string(dim) + ")\n" +
         std::string(embedded::compiler_compose_python_at_size);
}

}  // namespace weft
