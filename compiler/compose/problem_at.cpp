#include "compiler/compose/problem_at.hpp"

#include "embedded/compiler/compose/python/at_batch.py"

namespace weft {

std::string problem_at(std::string_view problem, std::int64_t batch) {
  return std::string(problem) + "\n\nWEFT_BATCH = " + std::to_string(batch) +
         "\n" + std::string(embedded::compiler_compose_python_at_batch);
}

}  // namespace weft
