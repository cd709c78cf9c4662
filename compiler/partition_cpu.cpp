// partition() for the targets that exist: passes first, then the cut along
// what the cpu target lowers.
#include "compiler/cpu.hpp"
#include "compiler/partition.hpp"
#include "compiler/passes.hpp"

namespace weft {

Plan partition(const Graph& model) {
  const Graph smaller = eliminate_dead_code(
      eliminate_common_subexpressions(eliminate_dead_code(model)));
  return partition(smaller, can_lower);
}

}  // namespace weft
