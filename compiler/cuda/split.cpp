// Few points and much to fold: each block folds a share and leaves its part, a
// second kernel folds the parts.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::store_partial(CudaKernel& kernel, const CudaFold& fold) {
  const std::string name = partial_name(fold);
  module_.scratch.push_back(
      {name, shape_.blocks * shape_.points * fold.value_bytes()});
  kernel.use(fold.value_type(), name);
  const std::string rank = shape_.blocks > 1 ? "rank" : "0";
  std::string at = "(" + kernel.place_type() + ")" + rank + " * " +
                   text(shape_.points) + " + p";
  std::string value = fold.whole();
  if (shape_.columns) {
    kernel.open_lanes();
    if (shape_.lanes > 1) at += " + l";
    value = fold.lanes() + kernel.at_lane();
  }
  kernel.out().line(if_leader() + name + "[" + at + "] = " + value + ";");
  if (shape_.columns) kernel.close_lanes();
}

// A warp for each point.
void CudaNest::print_merge() {
  const std::int64_t blocks = shape_.blocks;
  const std::int64_t points = shape_.points;
  shape_ = CudaShape();
  shape_.points = points;
  shape_.along = 32;
  shape_.across = 8;
  ragged_ = false;
  CudaKernel kernel(program(), module_, -1, 1, wide_);
  Writer& out = kernel.out();
  open_points(kernel);
  for (const Stage* stage : passes_.front().stages) {
    const CudaFold fold(program(), *stage);
    kernel.use(fold.value_type(), partial_name(fold));
    fold.declare(kernel);
    const std::string into = fold.lanes() + "[0]";
    out.line("#pragma unroll 4");
    out.open("for (int i = t; i < " + text(blocks) + "; i += 32)");
    out.line(into + " = " + fold.reducer() + "::of(" + into + ", " +
             partial_name(fold) + "[(" + kernel.place_type() + ")i * " +
             text(points) + " + p]);");
    out.close();
    out.line("const " + fold.value_type() + " " + fold.whole() +
             " = fold_warp<" + fold.reducer() + ", 32>(" + into + ");");
    fold.conclude(kernel, fold.whole(), false);
    spill(kernel, *stage);
  }
  kernel.finish(launch());
}

}  // namespace weft
