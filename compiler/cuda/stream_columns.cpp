// Folds down the columns of matrices whose rows begin anywhere: a block has a
// matrix to itself. The memory copies as many whole rows as a slot of a ring
// holds, which begin and end at multiples of 16 bytes together; each thread has
// some columns, a block's width apart.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::print_streamed_columns() {
  module_.streams = true;
  CudaKernel kernel(program(), module_, shape_.lane, shape_.lanes, wide_);
  const Pass& pass = passes_.front();
  const CudaFold fold = fold_of(*pass.stages.front());
  const LoopVar column = nest_.outer.back();
  const std::vector<LoopVar> matrices(nest_.outer.begin(),
                                      nest_.outer.end() - 1);
  const std::string slot = text(shape_.chunk * column.extent);
  const std::string type =
      cuda_type(program().arena[shape_.persistent.front()].dtype);
  kernel.expect_inner(pass.inner);
  kernel.need("stream");
  kernel.set_far_lanes(shape_.across, column.extent);
  ragged_ = true;

  Writer& out = kernel.out();
  out.line("extern __shared__ __align__(16) unsigned char memory[];");
  out.line(type + "* const rows = reinterpret_cast<" + type + "*>(memory);");
  out.line("__shared__ Ring<" + text(shape_.slots) + ", " +
           text(shape_.across / 32) + "> ring;");
  out.open("if (threadIdx.x == 0)");
  out.line("ring.begin();");
  out.line("barriers_begun();");
  out.close();
  out.line("__syncthreads();");
  out.line("Turn<" + text(shape_.slots) + "> turn;");
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
  fold.declare(kernel);
  fold_rows(kernel, pass, fold, slot);
  fold.conclude(kernel, fold.lanes() + kernel.at_lane(), true);
  spill_all(kernel, fold);
  for (std::size_t i = 1; i < passes_.size(); ++i) {
    print_points(kernel, passes_[i]);
  }
  out.close();
  out.close();
  CudaLaunch launch;
  launch.blocks = shape_.teams;
  launch.threads = shape_.threads;
  launch.shared_bytes = ring_bytes();
  kernel.finish(std::move(launch));
}

void CudaNest::open_matrices(CudaKernel& kernel,
                             const std::vector<LoopVar>& matrices) {
  kernel.out().open("for (" + kernel.place_type() + " p = blockIdx.x; p < " +
                    text(extent_of(matrices)) + "; p += " + text(shape_.teams) +
                    ")");
  kernel.declare(matrices, "p");
}

void CudaNest::read_rows(CudaKernel& kernel, const Pass& pass,
                         const std::string& slot) {
  Writer& out = kernel.out();
  const Scalar& node = program().arena[shape_.persistent.front()];
  const std::string chunk = text(shape_.chunk);
  const std::int64_t bytes =
      nest_.outer.back().extent * element_bytes(node.dtype);
  out.open("for (int c = 0; c < " + text(shape_.steps) + "; ++c, turn.next())");
  out.line("const int r = c * " + chunk + ";");
  kernel.declare(pass.inner, "r");
  out.line("const int bytes = min(" + chunk + ", " + text(shape_.row) +
           " - r) * " + text(bytes) + ";");
  kernel.use(node.buffer);
  out.line("ring.announce(turn, bytes);");
  out.line("copy_bulk(rows + turn.slot * " + slot + ", " +
           program().buffers[node.buffer].name + " + " +
           kernel.index(node.index[0]) + ", bytes, ring.full + turn.slot);");
  out.close();
}

void CudaNest::fold_rows(CudaKernel& kernel, const Pass& pass,
                         const CudaFold& fold, const std::string& slot) {
  Writer& out = kernel.out();
  const ExprId load = shape_.persistent.front();
  const std::string chunk = text(shape_.chunk);
  const std::string held = "h" + text(load);
  out.open("for (int c = 0; c < " + text(shape_.steps) + "; ++c, turn.next())");
  out.line("ring.await(turn);");
  out.line("#pragma unroll");
  out.open("for (int u = 0; u < " + chunk + "; ++u)");
  out.line("const int r = c * " + chunk + " + u;");
  if (shape_.row % shape_.chunk != 0) {
    out.line("if (r >= " + text(shape_.row) + ") break;");
  }
  kernel.declare(pass.inner, "r");
  out.line(cuda_type(program().arena[load].dtype) + " " + held + "[" +
           text(shape_.lanes) + "];");
  out.line("#pragma unroll");
  out.open("for (int l = 0; l < " + text(shape_.lanes) + "; ++l)");
  out.line(held + "[l] = rows[turn.slot * " + slot + " + u * " +
           text(nest_.outer.back().extent) + " + t + l * " +
           text(shape_.across) + "];");
  out.close();
  kernel.set_at_hand(load, held + "[l]");
  print_tile(kernel, pass, {fold}, false);
  out.close();
  out.line("ring.empty(turn);");
  out.close();
}

}  // namespace weft
