// The scheduler: puts the stages of a program into loop nests. Stages that keep
// the same points go into one nest, so that a row is read from memory once and
// from cache after; each nest gets an order of loops, a dimension for the
// vectors, and a way to share the work among threads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/loops/loop_facts.hpp"
#include "compiler/loops/program.hpp"

namespace weft {

/// A nest's stages where no bound is negative for any of the elements at hand:
/// those guards of loads are left out that the bounds decide. Empty: nobody has
/// looked, or there are none.
struct Interior {
  std::vector<Stage> stages;
  std::vector<Index> bounds;
};

struct Nest {
  std::vector<LoopVar> outer;  ///< walked by all stages, outermost first
  std::vector<Stage> stages;   ///< in order; Stage::outer is not used here
  /// Vectors run along the last outer variable, each lane a point of its own;
  /// otherwise along the last inner one, all lanes for one point.
  bool columns = false;
  /// Too few points for the threads: the fold itself is shared out.
  bool split = false;
  bool parallel = false;
  bool alone = false;     ///< its first stage is what the target wants alone
  std::int64_t work = 0;  ///< elements visited by its widest stage
  Interior interior;      ///< (interior.hpp)
  /// Results of earlier nests that it computes itself, to its own buffers
  /// (recompute.hpp).
  std::map<int, int> recomputed;
};

/// A program in its nests, in order.
struct Schedule {
  Program program;
  std::vector<Nest> nests;
  std::set<int> spilled;  ///< results that a later nest reads, in scratch
  /// Variables that are longer at other sizes (growing.hpp): to their extents
  /// at a size that is the same whatever this plan's, of the problem's order.
  std::map<int, std::int64_t> growing;
  std::vector<std::int64_t> decisions;  ///< by size (decisions.hpp)
};

/// `usual`: the same program's schedule at another size, which it follows in
/// all that is decided by size; null: none.
Schedule schedule(Program program, const LoopFacts& facts,
                  const Schedule* usual = nullptr);

/// What its kernels take to be launched, and to read and write all that they ask
/// memory for, or to compute, whichever is longer. Products on matrix units count
/// as read and written only.
double moving_us(const Schedule& plan, const DeviceRates& rates);

/// Whether it makes one of these buffers.
bool makes_any(const Nest& nest, const std::set<int>& results);

/// The results that the stage reads, or adds to.
std::set<int> results_read(const Program& program, const Stage& stage);

/// Elements of a domain.
std::int64_t extent_of(const std::vector<LoopVar>& variables);

}  // namespace weft
