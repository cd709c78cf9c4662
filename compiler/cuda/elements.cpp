// Pointwise nests: each thread takes a few vectors, a block apart.
#include <algorithm>

#include "compiler/cuda/nest.hpp"
#include "compiler/cuda/vector_width.hpp"

namespace weft {
// Whether much is read that is the same for all of the variable's values: a
// thread that takes several of these reads it once.
bool CudaNest::reads_again(LoopVar variable) const {
  for (const Pass& pass : passes_) {
    for (const ExprId id : program().arena.reachable(cuda_roots(pass))) {
      const Scalar& node = program().arena[id];
      if (node.op != ScalarOp::load || node.index.size() != 1) continue;
      std::map<int, LoopVar> used;
      node.index[0].collect(used);
      std::vector<LoopVar> variables;
      for (const auto& [id, variable] : used) variables.push_back(variable);
      if (!used.contains(variable.id) &&
          extent_of(variables) >=
              facts_.choices.cuda.rows.reread_elements_min) {
        return true;
      }
    }
  }
  return false;
}

void CudaNest::print_elements() {
  const LoopVar last =
      nest_.outer.empty() ? LoopVar{-1, 1} : nest_.outer.back();
  const int vector_width = cuda_vector_width(program(), passes_, last);
  const std::int64_t points = extent_of(nest_.outer);
  constexpr std::int64_t threads = 256;
  const bool down = nest_.outer.size() > 1 && reads_again(nest_.outer.front());
  const std::int64_t points_per_row =
      down ? points / nest_.outer.front().extent : points;
  const std::int64_t vectors = points_per_row / vector_width;
  std::int64_t items_per_thread = variant_.vectors;
  if (down) {
    items_per_thread = facts_.choices.cuda.rows.reread_values;
    while (nest_.outer.front().extent % items_per_thread != 0)
      items_per_thread /= 2;
  } else {
    while (items_per_thread > 1 && vectors % (threads * items_per_thread) != 0)
      items_per_thread /= 2;
  }
  tile_reason_ = {
      text(threads) + " threads, " + text(items_per_thread) + " vectors of " +
          text(vector_width) + " for each",
      down ? "much is read again for each value of the first dimension, so a "
             "thread takes several of these values"
           : "elements are independent; vectors are as long as alignment "
             "allows, and as many as the variant has and the points divide "
             "into"};
  // A thread's vectors are a block apart, or `across` points.
  const std::int64_t blocks_per_row =
      ceil_div(vectors, threads * (down ? 1 : items_per_thread));
  CudaKernel kernel(program(), module_, vector_width > 1 ? last.id : -1,
                    vector_width, wide_);
  Writer& out = kernel.out();
  const std::string index_type = kernel.index_type();
  const std::int64_t per_pass = down ? 1 : items_per_thread;
  const bool ragged = vectors % (threads * per_pass) != 0;
  if (down) {
    out.line("const " + index_type + " q = ((" + index_type +
             ")(blockIdx.x % " + text(blocks_per_row) + ") * " + text(threads) +
             " + threadIdx.x) * " + text(vector_width) + ";");
    if (ragged) out.line("if (q >= " + text(points_per_row) + ") return;");
    kernel.declare({nest_.outer.begin() + 1, nest_.outer.end()}, "q");
    out.line("#pragma unroll 4");
  } else if (items_per_thread > 1) {
    out.line("#pragma unroll");
  }
  if (items_per_thread > 1)
    out.open("for (int u = 0; u < " + text(items_per_thread) + "; ++u)");
  if (down) {
    kernel.declare({nest_.outer.front()},
                   "((" + index_type + ")(blockIdx.x / " +
                       text(blocks_per_row) + ") * " + text(items_per_thread) +
                       (items_per_thread > 1 ? " + u" : "") + ")");
  } else {
    const std::string block =
        "(" + index_type + ")blockIdx.x" +
        (items_per_thread > 1 ? " * " + text(items_per_thread) + " + u" : "");
    out.line("const " + index_type + " p = ((" + block + ") * " +
             text(threads) + " + threadIdx.x) * " + text(vector_width) + ";");
  }
  const bool guarded = ragged && !down;
  if (guarded) out.open("if (p < " + text(points) + ")");
  if (!down) kernel.declare(nest_.outer, "p");
  kernel_plan_.outer_reduction = true;
  kernel_plan_.threads_per_point = 1;
  kernel_plan_.vector_width = vector_width;
  for (const Pass& pass : passes_) print_points(kernel, pass);
  if (guarded) out.close();
  if (items_per_thread > 1) out.close();
  CudaLaunch launch;
  launch.blocks =
      blocks_per_row * (down ? points / points_per_row / items_per_thread : 1);
  launch.threads = threads;
  kernel.finish(std::move(launch));
}

}  // namespace weft
