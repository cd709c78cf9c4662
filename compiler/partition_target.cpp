// partition() for a target: passes first, then the cut along what it lowers.
#include "compiler/partition.hpp"
#include "compiler/passes.hpp"
#include "compiler/target.hpp"

namespace weft {

Plan partition(const Graph& model, const Target& target) {
  const Graph smaller = eliminate_dead_code(
      eliminate_common_subexpressions(eliminate_dead_code(model)));
  return partition(smaller, target.can_lower);
}

}  // namespace weft
