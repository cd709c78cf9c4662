// Cooperative groups: co-resident blocks that share a row and combine partials
// through global memory. A separate kernel zeroes their arrival counters
// beforehand.
#include "compiler/cuda/nest.hpp"

namespace weft {
void CudaNest::print_clearing(const std::string& type, const std::string& name,
                              std::int64_t count, std::int64_t bytes) {
  module_.scratch.push_back({name, count * bytes});
  CudaKernel kernel(program(), module_, -1, 1, false);
  kernel.use(type, name);
  kernel.out().line("const int i = blockIdx.x * " + text(kBlockThreads) +
                    " + threadIdx.x;");
  kernel.out().line("if (i < " + text(count) + ") " + name + "[i] = 0;");
  kernel.finish(count, kBlockThreads);
}

void CudaNest::clear_counters() {
  count_name_ =
      "count" + text(static_cast<std::int64_t>(module_.launches.size()));
  print_clearing("unsigned", count_name_,
                 kernel_plan_.cooperative_groups * kCudaCounterDistance, 4);
}

void CudaNest::open_cooperative_group(CudaKernel& kernel) {
  kernel.need("team");
  kernel.use("unsigned", count_name_);
  kernel.out().line("Team team = {" + count_name_ + " + group * " +
                    text(kCudaCounterDistance) + ", 0, rank, 0};");
}

std::string CudaNest::group_partial(CudaKernel& kernel,
                                    const CudaReduction& reduction) {
  const std::string name = partial_name(reduction);
  module_.scratch.push_back(
      {name, kernel_plan_.cooperative_groups * 2 * kernel_plan_.blocks *
                 reduction.value_bytes()});
  kernel.use(reduction.value_type(), name);
  return name + " + group * " + text(2 * kernel_plan_.blocks);
}

}  // namespace weft
