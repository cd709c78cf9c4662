// The variants in which a CUDA source is written: which is fastest is timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// What distinguishes the variants of one source.
struct CudaVariant {
  int vectors = 2;  ///< of an elementwise thread
  int unroll = 4;   ///< vectors in flight where rows are read again
  std::int64_t register_row =
      32768;                   ///< elements of a row persistent in registers
  int persistent_vectors = 8;  ///< of a thread, in registers
  bool rings = true;           ///< longer rows are persistent in shared memory
  int cluster_min = 1;         ///< blocks for a row that needs several
  int ring_threads = 1024;     ///< where a block has a multiprocessor
  bool fuses_reductions =
      true;              ///< two reductions of the same values share one walk
  bool clusters = true;  ///< else blocks combine partials through memory
  bool windows = true;   ///< kept in registers (cuda/windows.hpp)
  bool streams = false;  ///< long rows are warp-specialised (stream.cpp)
};

struct NamedCudaVariant {
  std::string name;  ///< for people and reports
  CudaVariant variant;
};

/// The one expected to be fastest first.
std::vector<NamedCudaVariant> cuda_variants();

}  // namespace weft
