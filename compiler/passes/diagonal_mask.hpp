// Masks that a model makes of numbers alone, such as tril(ones(n, n)), worked
// out: their elements depend on nothing but how far they lie from the
// diagonal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/passes/node_index.hpp"

namespace weft {

/// Matrices, all alike, whose element in row i and column j is at(j - i).
struct DiagonalMask {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;  ///< from the lower left corner's diagonal on

  double at(std::int64_t offset) const {
    return values[static_cast<std::size_t>(offset + rows - 1)];
  }
};

/// What the last two dimensions hold; nothing if that is not known: something
/// else than numbers is in it, or an operator that is not looked through.
std::optional<DiagonalMask> diagonal_mask(const NodeIndex& index,
                                          const Node& mask);

}  // namespace weft
