// Scans: running sums and products, stored or used as they come.
#include "compiler/cpu/nest.hpp"

namespace weft {

// Whether it is what the nest's scan has come to at this very point.
bool NestPrinter::is_scanned(const Scalar& node) const {
  const Stage& first = nest_.stages.front();
  return first.is_scan && node.op == ScalarOp::load && node.index.empty() &&
         node.buffer == first.results.front();
}

// In rows, one carry that goes from vector to vector; of columns, one for each.
void NestPrinter::declare_scan(const Stage& scan) {
  const std::string count = text(nest_.outer_reduction ? vectors() : 1);
  out_.line(reducer(program(), scan) + " " + acc(scan) + "[" + count + "];");
}

void NestPrinter::print_scan(const Pass& pass, PrintScope& scope) {
  const Stage& scan = *pass.scan();
  emit({{&scan}, pass.inner}, scope, vector_level(pass));
  const int result = scan.results.front();
  const std::string name = "z" + text(result);
  out_.line("const auto " + name + " = " + acc(scan) +
            (nest_.outer_reduction ? "[at].down(" : "[0].along(lanes, ") +
            operand_text(scope, scan.value) + ");");
  out_.line("(void)" + name + ";");
  scope.results[result] = name;
  if (!plan_.spilled.contains(result)) return;
  out_.line(store_text(scope, program().buffers[result].name,
                       scan.result_index[0], name));
}

}  // namespace weft
