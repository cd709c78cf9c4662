#include "compiler/choices/cuda_variants.hpp"

namespace weft {

std::vector<NamedCudaVariant> cuda_variants() {
  return {
      {"streamed", {.streams = true}},
      {"held", {}},
      {"held apart",
       {.packs = 4, .unroll = 8, .joins = false, .windows = false}},
      {"walked",
       {.packs = 1,
        .unroll = 8,
        .register_row = 4096,
        .held_packs = 4,
        .rings = false}},
      {"held half",
       {.packs = 4,
        .unroll = 8,
        .register_row = 16384,
        .held_packs = 16,
        .cluster_min = 8,
        .ring_threads = 512}},
      {"held grid", {.packs = 8, .unroll = 16, .clusters = false}},
      {"walked long", {.unroll = 16, .rings = false}},
  };
}

}  // namespace weft
