// Teams of blocks that share a row and meet through memory: what they count
// with is cleared beforehand by a kernel of its own.
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

/// Counters lie in different parts of the cache.
constexpr std::int64_t counter_distance = 32;

}  // namespace

void CudaNest::print_clearing(const std::string& type, const std::string& name,
                              std::int64_t count, std::int64_t bytes) {
  module_.scratch.push_back({name, count * bytes});
  CudaKernel kernel(program(), module_, -1, 1, false);
  kernel.use(type, name);
  kernel.out().line("const int i = blockIdx.x * 256 + threadIdx.x;");
  kernel.out().line("if (i < " + text(count) + ") " + name + "[i] = 0;");
  kernel.finish(count, 256);
}

void CudaNest::clear_counters() {
  count_name_ =
      "count" + text(static_cast<std::int64_t>(module_.launches.size()));
  print_clearing("unsigned", count_name_, shape_.teams * counter_distance, 4);
}

void CudaNest::open_team(CudaKernel& kernel) {
  kernel.need("team");
  kernel.use("unsigned", count_name_);
  kernel.out().line("Team team = {" + count_name_ + " + group * " +
                    text(counter_distance) + ", 0, rank, 0};");
}

std::string CudaNest::team_part(CudaKernel& kernel, const CudaFold& fold) {
  const std::string name = part_name(fold);
  module_.scratch.push_back(
      {name, shape_.teams * 2 * shape_.blocks * fold.value_bytes()});
  kernel.use(fold.value_type(), name);
  return name + " + group * " + text(2 * shape_.blocks);
}

}  // namespace weft
