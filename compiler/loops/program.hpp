// A subgraph as loops: buffers, and stages that each walk a domain of loop
// variables and reduce, scan, add to or store a value. Lowering produces it;
// the scheduler orders it.
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

enum class Reduction { sum, prod, max, min, argmax, argmin };

/// One pass over `outer` × `inner`.
///
/// A reduction reduces `inner` and leaves `results`: one buffer, or for argmax
/// and argmin the value and then the position.
///
/// A scan (sum or prod) stores, for each point of the one inner variable, the
/// reduction of the values from 0 to that point. Its result has an element for
/// each point of outer × inner, and `result_index` names the inner variable
/// too. A reverse or exclusive scan is expressed by the indices of `value` and
/// of its readers.
///
/// An add: each point of outer × inner, the inner in order, adds `value` to the
/// element at `result_index` + `position` of its one result, which an earlier
/// stage has filled. A negative `position` adds nothing. Points of outer never
/// meet.
///
/// A store writes `value` to `offset` of `output` where all `bounds` hold.
struct Stage {
  bool is_reduction = false;
  bool is_scan = false;  ///< never both
  bool is_add = false;   ///< nor this; only where a target adds in place
  bool is_store() const { return !is_reduction && !is_scan && !is_add; }
  Reduction reduction = Reduction::sum;
  std::vector<LoopVar> outer;
  std::vector<LoopVar> inner;
  ExprId value = 0;
  /// For an argmax or argmin: the index that it would return.
  ExprId position = -1;
  std::vector<int> results;
  /// Index of a point in the results' own dimensions.
  std::vector<Index> result_index;
  int output = -1;
  Index offset;
  /// Each index is less than its number. Only in no_fuse nests.
  std::vector<std::pair<Index, std::int64_t>> bounds;
  std::string note;  ///< the call it came from, for people
};

/// Expressions that a stage evaluates for each element: its value and, for an
/// argmax, argmin or add, the position.
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
