// Additions in place: threads share the points, so that none meets another's
// elements, and each goes through the entries in order.
#include <algorithm>

#include "compiler/cpu/nest.hpp"

namespace weft {

void NestPrinter::print_add(const Stage& stage, const PrintScope& scope) {
  const auto all = program().arena.reachable({stage.position});
  const bool is_one = std::ranges::none_of(all, [&](ExprId id) {
    return std::ranges::any_of(
        program().arena[id].index,
        [&](const Index& index) { return index.uses(scope.vector_variable); });
  });
  out_.line(add_text(scope, program().buffers[stage.results[0]].name,
                     stage.result_index[0], operand_text(scope, stage.position),
                     is_one, operand_text(scope, stage.value)));
}

}  // namespace weft
