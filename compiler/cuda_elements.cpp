// Nests without folds: each thread takes a few packs, a block apart.
#include <algorithm>

#include "compiler/cuda_nest.hpp"

namespace weft {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

}  // namespace

void CudaNest::print_elements() {
  const LoopVar last =
      nest_.outer.empty() ? LoopVar{-1, 1} : nest_.outer.back();
  const int lanes = cuda_lanes(program(), passes_, last);
  const std::int64_t points = extent_of(nest_.outer);
  const std::int64_t packs = points / lanes;
  std::int64_t threads = 256;
  std::int64_t each = variant_.packs;
  while (each > 1 && packs % (threads * each) != 0) each /= 2;
  CudaKernel kernel(program(), module_, lanes > 1 ? last.id : -1, lanes, wide_);
  Writer& out = kernel.out();
  if (each > 1) {
    out.line("#pragma unroll");
    out.open("for (int u = 0; u < " + text(each) + "; ++u)");
  }
  const std::string block = "(" + kernel.place_type() + ")blockIdx.x" +
                            (each > 1 ? " * " + text(each) + " + u" : "");
  out.line("const " + kernel.place_type() + " p = ((" + block + ") * " +
           text(threads) + " + threadIdx.x) * " + text(lanes) + ";");
  const bool ragged = packs % (threads * each) != 0;
  if (ragged) out.open("if (p < " + text(points) + ")");
  kernel.declare(nest_.outer, "p");
  shape_.columns = true;
  shape_.along = 1;
  shape_.lanes = lanes;
  for (const Pass& pass : passes_) print_points(kernel, pass);
  if (ragged) out.close();
  if (each > 1) out.close();
  CudaLaunch launch;
  launch.blocks = ceil_div(packs, threads * each);
  launch.threads = static_cast<int>(threads);
  kernel.finish(std::move(launch));
}

}  // namespace weft
