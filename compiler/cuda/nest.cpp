#include "compiler/cuda/nest.hpp"

#include <algorithm>

#include "compiler/loops/width.hpp"

namespace weft {

std::vector<ExprId> cuda_roots(const Pass& pass) {
  std::vector<ExprId> roots;
  for (const Stage* stage : pass.stages) {
    roots.push_back(stage->value);
    if (stage->position >= 0) roots.push_back(stage->position);
  }
  return roots;
}

CudaNest::CudaNest(const Schedule& plan, const Nest& nest,
                   const CudaVariant& variant, const GpuFacts& facts,
                   CudaModule& module)
    : plan_(plan),
      nest_(nest),
      variant_(variant),
      facts_(facts),
      module_(module),
      passes_(passes_of(plan.program, nest)),
      wide_(needs_wide(plan.program, nest)) {
  fuse_reductions();
}

// Fuses softmax's two reductions, or a norm's, into one walk. That saves a read
// of a row in memory, or a barrier of one on chip.
void CudaNest::fuse_reductions() {
  if (nest_.split || !variant_.fuses_reductions) return;
  for (std::size_t i = 0; i + 1 < passes_.size(); ++i) {
    const Pass& sum = passes_[i + 1];
    if (sum.stages.size() != 1 || sum.inner.empty() ||
        sum.inner != passes_[i].inner) {
      continue;
    }
    for (const Stage* stage : passes_[i].stages) {
      // In columns each lane is a point of its own, and never closed.
      if (nest_.outer_reduction && stage->reduction == Reduction::sum) continue;
      if (!can_fuse_reductions(program(), *stage, *sum.stages[0])) continue;
      companions_[stage] = sum.stages[0];
      passes_.erase(passes_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      break;
    }
  }
}

// In columns each lane is a point of its own, and never closed.
CudaReduction CudaNest::reduction_of(const Stage& stage) const {
  const auto found = companions_.find(&stage);
  return {program(), stage,
          found == companions_.end() ? nullptr : found->second,
          !kernel_plan_.outer_reduction};
}

void CudaNest::print() {
  const bool walks = std::ranges::any_of(
      passes_, [](const Pass& p) { return !p.inner.empty(); });
  if (!walks) return print_elements();
  if (variant_.windows) {
    const auto tile = find_stencil_tile(plan_, nest_, passes_, facts_);
    if (tile) {
      tile_reason_ = {"a stencil's planes",
                      "windows overlap along a walk, so a thread keeps the "
                      "planes that the next window reads again"};
      return print_stencil_tile(*tile);
    }
    const auto windows = find_windows(plan_, nest_, passes_, facts_);
    if (windows) {
      tile_reason_ = {text(kCudaWindowVectorWidth) + " neighbouring windows",
                      "windows overlap, so a thread keeps the rows that "
                      "several windows read in registers"};
      return print_windows(*windows);
    }
  }
  kernel_plan_ = plan_kernel(plan_, nest_, passes_, variant_, facts_);
  tile_reason_ = {text(kernel_plan_.threads) + " threads, " +
                      text(kernel_plan_.points_per_block) +
                      " points in a block, " + text(kernel_plan_.blocks) +
                      " blocks for a point, vectors of " +
                      text(kernel_plan_.vector_width),
                  kernel_plan_.reason};
  if (kernel_plan_.persistence == Persistence::stream) {
    return kernel_plan_.outer_reduction ? print_streamed_columns()
                                        : print_streamed();
  }
  if (kernel_plan_.combine == Combine::grid) clear_counters();
  print_rows();
  if (kernel_plan_.combine == Combine::parts) print_merge();
}

std::string CudaNest::partial_name(const CudaReduction& reduction) const {
  return "part" + std::to_string(reduction.stage().results[0]);
}

}  // namespace weft
