#include "compiler/choices/cpu_variants.hpp"

#include <algorithm>

namespace weft {

std::vector<NamedCpuVariant> cpu_variants(bool large, int vector_bytes) {
  const int vector_width = std::max(4, vector_bytes / 4);
  const std::string width = "vec" + std::to_string(vector_width);
  std::vector<NamedCpuVariant> list;
  const auto add = [&](std::string name, int unroll, std::int64_t block,
                       bool stream) {
    list.push_back(
        {width + name, {vector_width, unroll, block, false, stream}});
  };
  list.push_back(
      {width + " unroll4 keep", {vector_width, 4, 8192, true, false}});
  add(" unroll4", 4, 8192, false);
  if (large) add(" unroll4 stream", 4, 8192, true);
  add(" unroll2 block256", 2, 256, false);
  if (large) add(" unroll2 block256 stream", 2, 256, true);
  add(" unroll8 block64", 8, 64, false);
  if (vector_width > 8) {
    list.push_back({"vec8 unroll4", {8, 4, 8192, false, false}});
  }
  return list;
}

}  // namespace weft
