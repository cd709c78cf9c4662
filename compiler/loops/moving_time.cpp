#include <set>
#include <string>

#include "compiler/loops/schedule.hpp"

namespace weft {
namespace {

double bytes_of(const Index& index, DType dtype) {
  return static_cast<double>(elements_of(index)) *
         static_cast<double>(element_bytes(dtype));
}

/// Each read once, as often as its own loops go: one that is guarded asks, too.
double bytes_read(const Program& program, const Nest& nest) {
  double bytes = 0;
  std::set<std::string> seen;
  for (const Stage& stage : nest.stages) {
    for (const ExprId id : program.arena.reachable(roots_of(stage))) {
      const Scalar& node = program.arena[id];
      if (node.op != ScalarOp::load || node.index.size() != 1) continue;
      const std::string key =
          std::to_string(node.buffer) + "|" + node.index[0].key();
      if (seen.insert(key).second) bytes += bytes_of(node.index[0], node.dtype);
    }
  }
  return bytes;
}

double bytes_written(const Schedule& plan, const Nest& nest) {
  double bytes = 0;
  for (const Stage& stage : nest.stages) {
    if (stage.is_store()) {
      bytes += bytes_of(stage.offset, plan.program.buffers[stage.output].dtype);
    }
    for (const int result : stage.results) {
      if (!plan.spilled.contains(result)) continue;
      const Buffer& buffer = plan.program.buffers[result];
      bytes += static_cast<double>(elements_of(buffer)) *
               static_cast<double>(element_bytes(buffer.dtype));
    }
  }
  return bytes;
}

}  // namespace

double moving_us(const Schedule& plan, const DeviceRates& rates) {
  Work work;
  work.launches = static_cast<int>(plan.nests.size());
  for (const Nest& nest : plan.nests) {
    work.bytes += bytes_read(plan.program, nest) + bytes_written(plan, nest);
  }
  return cost_us(work, rates);
}

}  // namespace weft
