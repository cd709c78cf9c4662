// Column reduction of matrices whose rows are not aligned, one matrix a block.
// A producer warp issues bulk copies of as many whole rows as a ring's slot
// holds, which are aligned to 16 bytes together; each thread reduces some
// columns, a block's width apart.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::print_streamed_columns() {
  module_.streams = true;
  CudaKernel kernel(program(), module_, kernel_plan_.lane,
                    kernel_plan_.vector_width, wide_);
  const Pass& pass = passes_.front();
  const CudaReduction reduction = reduction_of(*pass.stages.front());
  const LoopVar column = nest_.outer.back();
  const std::vector<LoopVar> matrices(nest_.outer.begin(),
                                      nest_.outer.end() - 1);
  const std::string slot = text(kernel_plan_.chunk * column.extent);
  const std::string type =
      cuda_type(program().arena[kernel_plan_.persistent.front()].dtype);
  kernel.expect_inner(pass.inner);
  kernel.need("stream");
  kernel.set_far_lanes(kernel_plan_.points_per_block, column.extent);
  ragged_ = true;

  Writer& out = kernel.out();
  out.line("extern __shared__ __align__(16) unsigned char memory[];");
  out.line(type + "* const rows = reinterpret_cast<" + type + "*>(memory);");
  out.line("__shared__ Ring<" + text(kernel_plan_.slots) + ", " +
           text(kernel_plan_.points_per_block / 32) + "> ring;");
  out.open("if (threadIdx.x == 0)");
  out.line("ring.init();");
  out.line("fence_barrier_init();");
  out.close();
  out.line("__syncthreads();");
  out.line("RingPosition<" + text(kernel_plan_.slots) + "> position;");
  out.open("if (threadIdx.x < 32)");
  out.line("if (threadIdx.x > 0) return;");
  open_matrices(kernel, matrices);
  kernel.set_variable(column, "0");
  read_rows(kernel, pass, slot);
  out.close();
  out.otherwise("");
  out.line("const int t = threadIdx.x - 32;");
  open_matrices(kernel, matrices);
  kernel.set_variable(column, "t");
  kernel.compute(cuda_roots(pass), true);
  reduction.declare(kernel);
  fold_rows(kernel, pass, reduction, slot);
  reduction.conclude(kernel, reduction.accumulators() + kernel.at_lane(), true);
  spill_all(kernel, reduction);
  for (std::size_t i = 1; i < passes_.size(); ++i) {
    print_points(kernel, passes_[i]);
  }
  out.close();
  out.close();
  CudaLaunch launch;
  launch.blocks = kernel_plan_.cooperative_groups;
  launch.threads = kernel_plan_.threads;
  launch.shared_bytes = ring_bytes();
  kernel.finish(std::move(launch));
}

void CudaNest::open_matrices(CudaKernel& kernel,
                             const std::vector<LoopVar>& matrices) {
  kernel.out().open("for (" + kernel.index_type() + " p = blockIdx.x; p < " +
                    text(extent_of(matrices)) +
                    "; p += " + text(kernel_plan_.cooperative_groups) + ")");
  kernel.declare(matrices, "p");
}

void CudaNest::read_rows(CudaKernel& kernel, const Pass& pass,
                         const std::string& slot) {
  Writer& out = kernel.out();
  const Scalar& node = program().arena[kernel_plan_.persistent.front()];
  const std::string chunk = text(kernel_plan_.chunk);
  const std::int64_t bytes =
      nest_.outer.back().extent * element_bytes(node.dtype);
  out.open("for (int c = 0; c < " + text(kernel_plan_.steps) +
           "; ++c, position.next())");
  out.line("const int r = c * " + chunk + ";");
  kernel.declare(pass.inner, "r");
  out.line("const int bytes = min(" + chunk + ", " + text(kernel_plan_.row) +
           " - r) * " + text(bytes) + ";");
  kernel.use(node.buffer);
  out.line("ring.acquire(position, bytes);");
  out.line("copy_bulk(rows + position.slot * " + slot + ", " +
           program().buffers[node.buffer].name + " + " +
           kernel.index(node.index[0]) +
           ", bytes, ring.full + position.slot);");
  out.close();
}

void CudaNest::fold_rows(CudaKernel& kernel, const Pass& pass,
                         const CudaReduction& reduction,
                         const std::string& slot) {
  Writer& out = kernel.out();
  const ExprId load = kernel_plan_.persistent.front();
  const std::string chunk = text(kernel_plan_.chunk);
  const std::string loaded = "h" + text(load);
  out.open("for (int c = 0; c < " + text(kernel_plan_.steps) +
           "; ++c, position.next())");
  out.line("ring.wait_full(position);");
  out.line("#pragma unroll");
  out.open("for (int u = 0; u < " + chunk + "; ++u)");
  out.line("const int r = c * " + chunk + " + u;");
  if (kernel_plan_.row % kernel_plan_.chunk != 0) {
    out.line("if (r >= " + text(kernel_plan_.row) + ") break;");
  }
  kernel.declare(pass.inner, "r");
  out.line(cuda_type(program().arena[load].dtype) + " " + loaded + "[" +
           text(kernel_plan_.vector_width) + "];");
  out.line("#pragma unroll");
  out.open("for (int l = 0; l < " + text(kernel_plan_.vector_width) + "; ++l)");
  out.line(loaded + "[l] = rows[position.slot * " + slot + " + u * " +
           text(nest_.outer.back().extent) + " + t + l * " +
           text(kernel_plan_.points_per_block) + "];");
  out.close();
  kernel.set_at_hand(load, loaded + "[l]");
  print_tile(kernel, pass, {reduction}, false);
  out.close();
  out.line("ring.release(position);");
  out.close();
}

}  // namespace weft
