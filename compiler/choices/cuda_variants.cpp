#include "compiler/choices/cuda_variants.hpp"

namespace weft {

std::vector<NamedCudaVariant> cuda_variants() {
  return {
      {"warp-specialised", {.streams = true}},
      {"persistent", {}},
      {"persistent, folds apart",
       {.vectors = 4,
        .unroll = 8,
        .fuses_reductions = false,
        .windows = false}},
      {"multi-pass",
       {.vectors = 1,
        .unroll = 8,
        .register_row = 4096,
        .persistent_vectors = 4,
        .rings = false}},
      {"persistent, half blocks",
       {.vectors = 4,
        .unroll = 8,
        .register_row = 16384,
        .persistent_vectors = 16,
        .cluster_min = 8,
        .ring_threads = 512}},
      {"persistent, no clusters",
       {.vectors = 8, .unroll = 16, .clusters = false}},
      {"multi-pass, unrolled", {.unroll = 16, .rings = false}},
  };
}

}  // namespace weft
