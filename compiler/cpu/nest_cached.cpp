// Values that cost more to compute than to read again: one pass over a row
// keeps them for the next, where the row is small enough to stay in cache.
#include "compiler/cpu/nest.hpp"

namespace weft {
namespace {

bool is_dear(const Scalar& node) {
  static const std::set<std::string> kDear = {
      "exp", "expm1", "log",  "log1p", "tanh", "sigmoid",   "erf", "gelu",
      "pow", "silu",  "mish", "sin",   "cos",  "gelu_tanh", "elu", "softplus"};
  constexpr std::string_view kHalf = "half_";
  return node.op == ScalarOp::call && node.dtype == DType::f32 &&
         kDear.contains(node.function.starts_with(kHalf)
                            ? node.function.substr(kHalf.size())
                            : node.function);
}

}  // namespace

// Where a pass's point stands in its row.
Index NestPrinter::cache_index(const Pass& pass) const {
  Index flat;
  for (const LoopVar& v : pass.inner) flat = flat * v.extent + Index(v);
  return flat;
}

void NestPrinter::choose_cached() {
  const auto passes = passes_of(program(), nest_);
  if (!variant_.keep_values || nest_.outer_reduction || passes.size() < 2)
    return;
  const auto& inner = passes.front().inner;
  const std::int64_t bytes = 4 * extent_of(inner);
  if (inner.empty() || is_symbolic(plan_, inner) ||
      bytes > facts_.l2_bytes / facts_.choices.cpu.kept_l2_divisor)
    return;
  std::set<ExprId> seen;
  for (const Pass& pass : passes) {
    if (pass.inner != inner) continue;
    for (const ExprId id : expressions(pass)) {
      const bool varies = level_of(pass, id) == vector_level(pass);
      if (!varies || !is_dear(program().arena[id])) continue;
      if (!seen.insert(id).second && cached_.empty()) cached_.insert(id);
    }
  }
}

}  // namespace weft
