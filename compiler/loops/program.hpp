// A subgraph in loops: buffers, and stages that each walk a domain of loop
// variables and either fold a value into a result or store it. What lowering
// makes and the scheduler orders.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/loops/scalar.hpp"

namespace weft {

enum class BufferKind {
  input,   ///< an argument, loaded by one flat element offset
  output,  ///< an argument that is written
  result,  ///< what a reduction leaves: one element for each kept point
};

struct Buffer {
  BufferKind kind = BufferKind::input;
  DType dtype = DType::f32;
  std::string name;  ///< "in0", "out1", "r2"
  std::vector<std::int64_t> shape;
  /// Of an input: from its first element to its last in memory, by its strides.
  std::int64_t span = 0;
};

inline std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

inline std::int64_t elements_of(const Buffer& buffer) {
  return elements_of(buffer.shape);
}

enum class Fold { sum, prod, max, min, argmax, argmin };

/// One pass over `outer` × `inner`. With a fold, `inner` is folded away and
/// `results` (one buffer; for argmax and argmin the value, then the position)
/// hold what is left. With a scan (sum or prod), the fold of the
/// values from 0 to each point of the one inner variable is kept: the result
/// has an element for every point of outer × inner, and `result_index` names
/// the inner variable too. A scan from the end, or one that leaves out its own
/// point, is one whose `value` and readers are indexed so. If it adds, each
/// point of outer × inner, the inner in order, adds its `value` to the element
/// at `result_index` + `position` of the one of `results`, which a stage before
/// has filled; where `position` is negative, to none. Points of outer never
/// meet. With none of these, `value` is stored at `offset` of `output`, where
/// all `bounds` hold.
struct Stage {
  bool folds = false;
  bool scans = false;  ///< never both
  bool adds = false;   ///< nor this; only where a target adds in place
  bool stores() const { return !folds && !scans && !adds; }
  Fold fold = Fold::sum;
  std::vector<LoopVar> outer;
  std::vector<LoopVar> inner;
  ExprId value = 0;
  /// Of an argmax: the index that it would return.
  ExprId position = -1;
  std::vector<int> results;
  /// Where a point stands in the results' own dimensions.
  std::vector<Index> result_index;
  int output = -1;
  Index offset;
  /// Each less than that; only in nests of what a target wants alone.
  std::vector<std::pair<Index, std::int64_t>> bounds;
  std::string note;  ///< the call it came from, for people
};

/// What a stage computes for each element: its value and, of an argmax or
/// argmin, or where it adds, the position.
inline std::vector<ExprId> roots_of(const Stage& stage) {
  std::vector<ExprId> roots = {stage.value};
  if (stage.position >= 0) roots.push_back(stage.position);
  return roots;
}

struct Program {
  ScalarArena arena;
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;  ///< each after what it reads
  int variables = 0;

  LoopVar new_variable(std::int64_t extent) { return {variables++, extent}; }
};

}  // namespace weft
