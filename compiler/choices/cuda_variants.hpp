// The variants in which a CUDA source is written: which is fastest is timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// What distinguishes the variants of one source.
struct CudaVariant {
  int packs = 2;                      ///< of an elementwise thread
  int unroll = 4;                     ///< packs under way where rows are walked
  std::int64_t register_row = 32768;  ///< elements of a row held in registers
  int held_packs = 8;                 ///< of a thread, in registers
  bool rings = true;                  ///< longer rows are held in shared memory
  int cluster_min = 1;                ///< blocks for a row that needs several
  int ring_threads = 1024;            ///< where a block has a multiprocessor
  bool joins = true;     ///< two folds of the same values go in one walk
  bool clusters = true;  ///< else blocks that share a row meet through memory
  bool windows = true;   ///< kept in registers (cuda/windows.hpp)
  bool streams = false;  ///< long rows, read, folded and stored side by side
};

struct NamedCudaVariant {
  std::string name;  ///< for people and reports
  CudaVariant variant;
};

/// The one expected to be fastest first.
std::vector<NamedCudaVariant> cuda_variants();

}  // namespace weft
