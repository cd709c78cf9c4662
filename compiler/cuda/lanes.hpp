// Which neighbours in memory a thread can take at once.
#pragma once

#include <optional>
#include <vector>

#include "compiler/choices/cuda_choices.hpp"
#include "compiler/loops/pass.hpp"

namespace weft {

/// What a pass reads from memory.
std::vector<ExprId> cuda_loads(const Program& program, const Pass& pass);

/// The most neighbours along that variable that a thread can take at once, and
/// gains by it.
int cuda_lanes(const Program& program, const std::vector<Pass>& passes,
               LoopVar lane);

/// As many where rows begin anywhere.
inline constexpr int cuda_shifted_lanes = 4;

/// Where a row begins, if rows lie behind each other and their length is no
/// multiple of a pack, so that in every row all that is read and written side
/// by side begins as far behind a multiple.
std::optional<Index> cuda_row_begin(const Program& program,
                                    const std::vector<Pass>& passes,
                                    LoopVar lane,
                                    const CudaRowChoices& choices);

}  // namespace weft
