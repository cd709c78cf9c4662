// What the scheduler may know of the processor or GPU that it puts loops on.
#pragma once

#include <cstdint>
#include <functional>

#include "compiler/choices/choices.hpp"
#include "compiler/choices/cost.hpp"

namespace weft {

struct Program;
struct Stage;

/// The defaults are a small processor's.
struct LoopFacts {
  int cores = 1;
  int vector_bytes = 32;             ///< widest SIMD register
  std::int64_t l1_bytes = 32 << 10;  ///< of one core
  std::int64_t l2_bytes = 1 << 20;   ///< of one core
  /// Reductions over at most this many elements are never divided among
  /// threads.
  std::int64_t whole_row = 0;
  /// The loops become a GPU's blocks and threads: what a row's first pass read
  /// is in registers in its next, and `cores` counts multiprocessors.
  bool on_gpu = false;
  /// A row's reductions are computed again in each point that reads them, where
  /// that may be faster (recompute.hpp).
  bool recomputes = false;
  DeviceRates rates{};  ///< of the GPU, where it is one
  Choices choices{};    ///< what is decided by speed alone
  /// The graph is symbolic (compiler/graph/symbolic_shapes.hpp): decisions must
  /// not depend on which factor of a product is longer, or on the order of its
  /// loops.
  bool for_sizes = false;
  /// True for stages with code of their own: only stages that follow at the
  /// same points, without a loop, may join their nest. Null: none.
  std::function<bool(const Program&, const Stage&)> no_fuse{};
};

}  // namespace weft
