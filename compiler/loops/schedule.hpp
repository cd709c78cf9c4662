// The scheduler: puts the stages of a program into loop nests. Stages with the
// same points share a nest, so a row is read from memory once and then from
// cache. Each nest gets a loop order, a vectorised dimension, and a way to
// divide the work among threads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/loops/loop_facts.hpp"
#include "compiler/loops/program.hpp"

namespace weft {

/// A nest's stages at elements where no bound is negative: guards of loads that
/// the bounds decide are dropped. Empty: not computed, or there are no such
/// bounds.
struct Interior {
  std::vector<Stage> stages;
  std::vector<Index> bounds;
};

struct Nest {
  std::vector<LoopVar> outer;  ///< walked by all stages, outermost first
  std::vector<Stage> stages;   ///< in order; Stage::outer is not used here
  /// Vectors run along the last outer variable, so each lane is a point of its
  /// own (an outer reduction has this layout). Otherwise they run along the
  /// last inner variable, and all lanes belong to one point.
  bool outer_reduction = false;
  /// Split reduction: too few points for the threads, so the reduced elements
  /// are divided among them.
  bool split = false;
  bool parallel = false;
  bool no_fuse = false;   ///< its first stage is what the target wants alone
  std::int64_t work = 0;  ///< elements visited by its widest stage
  Interior interior;      ///< (interior.hpp)
  /// Results of earlier nests that it computes itself, to its own buffers
  /// (recompute.hpp).
  std::map<int, int> recomputed;
  /// Why its stages do not share an earlier nest, for people.
  std::string reason{};
};

/// A program in its nests, in order.
struct Schedule {
  Program program;
  std::vector<Nest> nests;
  std::set<int> spilled;  ///< results that a later nest reads, in scratch
  /// Loop variables with a symbolic extent (symbolic_loops.hpp), and that
  /// extent at hint_graph().
  std::map<int, std::int64_t> symbolic_loops;
  std::vector<std::int64_t> decisions;  ///< by size (decisions.hpp)
};

/// `hint`: the same program's schedule at hint_graph(); all decisions that
/// depend on sizes follow it. Null: there is none.
Schedule schedule(Program program, const LoopFacts& facts,
                  const Schedule* hint = nullptr);

/// Estimated time of the schedule's kernels: launches, and memory traffic or
/// arithmetic, whichever takes longer. Products on matrix units count
/// as read and written only.
double moving_us(const Schedule& plan, const DeviceRates& rates);

/// True if the nest computes one of these buffers.
bool makes_any(const Nest& nest, const std::set<int>& results);

/// The results that the stage reads, or adds to.
std::set<int> results_read(const Program& program, const Stage& stage);

/// Number of elements of a domain.
std::int64_t extent_of(const std::vector<LoopVar>& variables);

}  // namespace weft
