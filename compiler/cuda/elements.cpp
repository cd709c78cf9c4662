// Pointwise nests: each thread takes a few vectors, a block apart.
#include <algorithm>

#include "compiler/cuda/lanes.hpp"
#include "compiler/cuda/nest.hpp"

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
      for (const auto& [key, each] : used) variables.push_back(each);
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
  const int lanes = cuda_lanes(program(), passes_, last);
  const std::int64_t points = extent_of(nest_.outer);
  constexpr std::int64_t threads = 256;
  const bool down = nest_.outer.size() > 1 && reads_again(nest_.outer.front());
  const std::int64_t across =
      down ? points / nest_.outer.front().extent : points;
  const std::int64_t vectors = across / lanes;
  std::int64_t each = variant_.vectors;
  if (down) {
    each = facts_.choices.cuda.rows.reread_values;
    while (nest_.outer.front().extent % each != 0) each /= 2;
  } else {
    while (each > 1 && vectors % (threads * each) != 0) each /= 2;
  }
  // A thread's vectors are a block apart, or `across` points.
  const std::int64_t blocks_across =
      ceil_div(vectors, threads * (down ? 1 : each));
  CudaKernel kernel(program(), module_, lanes > 1 ? last.id : -1, lanes, wide_);
  Writer& out = kernel.out();
  const std::string place = kernel.place_type();
  const std::int64_t per_pass = down ? 1 : each;
  const bool ragged = vectors % (threads * per_pass) != 0;
  if (down) {
    out.line("const " + place + " q = ((" + place + ")(blockIdx.x % " +
             text(blocks_across) + ") * " + text(threads) +
             " + threadIdx.x) * " + text(lanes) + ";");
    if (ragged) out.line("if (q >= " + text(across) + ") return;");
    kernel.declare({nest_.outer.begin() + 1, nest_.outer.end()}, "q");
    out.line("#pragma unroll 4");
  } else if (each > 1) {
    out.line("#pragma unroll");
  }
  if (each > 1) out.open("for (int u = 0; u < " + text(each) + "; ++u)");
  if (down) {
    kernel.declare({nest_.outer.front()},
                   "((" + place + ")(blockIdx.x / " + text(blocks_across) +
                       ") * " + text(each) + (each > 1 ? " + u" : "") + ")");
  } else {
    const std::string block = "(" + place + ")blockIdx.x" +
                              (each > 1 ? " * " + text(each) + " + u" : "");
    out.line("const " + place + " p = ((" + block + ") * " + text(threads) +
             " + threadIdx.x) * " + text(lanes) + ";");
  }
  const bool guarded = ragged && !down;
  if (guarded) out.open("if (p < " + text(points) + ")");
  if (!down) kernel.declare(nest_.outer, "p");
  shape_.columns = true;
  shape_.along = 1;
  shape_.lanes = lanes;
  for (const Pass& pass : passes_) print_points(kernel, pass);
  if (guarded) out.close();
  if (each > 1) out.close();
  CudaLaunch launch;
  launch.blocks = blocks_across * (down ? points / across / each : 1);
  launch.threads = threads;
  kernel.finish(std::move(launch));
}

}  // namespace weft
