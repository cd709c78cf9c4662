// Index tensors: what a call that reads or adds where they say makes of them.
#pragma once

#include <vector>

#include "compiler/lowering/operators/table.hpp"

namespace weft {

/// The index as i64; Unsupported where it is no tensor of integers.
Virtual index_values(const Call& call, const Virtual& index);

/// An index below zero counts from the end.
ExprId from_either_end(Lowering& in, ExprId offset, std::int64_t extent);

/// For dimensions beside one another, from `first` on: a tensor each, all
/// broadcast to the shape `together`, which stands in these dimensions' stead.
struct IndexTensors {
  std::size_t first = 0;
  std::vector<Virtual> chosen;
  Shape together;
};

/// Of an argument "indices" at position 1.
IndexTensors index_tensors(const Call& call);

}  // namespace weft
