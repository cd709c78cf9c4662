// Reduces adjacent windows together, so that the elements they share are read
// once.
#pragma once

#include <cstdint>

#include "compiler/loops/index.hpp"

namespace weft {

/// `together` windows along `outer`, a neighbour `step` elements of the
/// window's own dimension `inner` further.
struct Jam {
  LoopVar outer = {-1, 1};
  LoopVar inner = {-1, 1};
  std::int64_t step = 1;
  std::int64_t together = 1;

  std::int64_t written() const { return together * inner.extent; }
  /// Elements along that dimension that the windows cover.
  std::int64_t covered() const { return (together - 1) * step + inner.extent; }
  double share() const {
    return static_cast<double>(covered()) / static_cast<double>(written());
  }
};

}  // namespace weft
