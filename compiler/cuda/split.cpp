// Few points and much to reduce: each block reduces a share and leaves its
// part, a second kernel reduces the parts.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::store_partial(CudaKernel& kernel,
                             const CudaReduction& reduction) {
  const std::string name = partial_name(reduction);
  module_.scratch.push_back({name, kernel_plan_.blocks * kernel_plan_.points *
                                       reduction.value_bytes()});
  kernel.use(reduction.value_type(), name);
  const std::string rank = kernel_plan_.blocks > 1 ? "rank" : "0";
  std::string at = "(" + kernel.index_type() + ")" + rank + " * " +
                   text(kernel_plan_.points) + " + p";
  std::string value = reduction.whole();
  if (kernel_plan_.outer_reduction) {
    kernel.open_lanes();
    if (kernel_plan_.vector_width > 1) at += " + l";
    value = reduction.accumulators() + kernel.at_lane();
  }
  kernel.out().line(if_leader() + name + "[" + at + "] = " + value + ";");
  if (kernel_plan_.outer_reduction) kernel.close_lanes();
}

// A warp for each point.
void CudaNest::print_merge() {
  const std::int64_t blocks = kernel_plan_.blocks;
  const std::int64_t points = kernel_plan_.points;
  kernel_plan_ = KernelPlan();
  kernel_plan_.points = points;
  kernel_plan_.threads_per_point = 32;
  kernel_plan_.points_per_block = 8;
  ragged_ = false;
  CudaKernel kernel(program(), module_, -1, 1, wide_);
  Writer& out = kernel.out();
  open_points(kernel);
  for (const Stage* stage : passes_.front().stages) {
    const CudaReduction reduction(program(), *stage);
    kernel.use(reduction.value_type(), partial_name(reduction));
    reduction.declare(kernel);
    const std::string into = reduction.accumulators() + "[0]";
    out.line("#pragma unroll 4");
    out.open("for (int i = t; i < " + text(blocks) + "; i += 32)");
    out.line(into + " = " + reduction.reducer() + "::of(" + into + ", " +
             partial_name(reduction) + "[(" + kernel.index_type() + ")i * " +
             text(points) + " + p]);");
    out.close();
    out.line("const " + reduction.value_type() + " " + reduction.whole() +
             " = fold_warp<" + reduction.reducer() + ", 32>(" + into + ");");
    reduction.conclude(kernel, reduction.whole(), false);
    spill(kernel, *stage);
  }
  kernel.finish(launch());
}

}  // namespace weft
