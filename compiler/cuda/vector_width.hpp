// Widest vector access that a thread can use.
#pragma once

#include <optional>
#include <vector>

#include "compiler/choices/cuda_choices.hpp"
#include "compiler/loops/pass.hpp"

namespace weft {

/// Loads of a pass.
std::vector<ExprId> cuda_loads(const Program& program, const Pass& pass);

/// Elements of the widest profitable vector access along that variable.
int cuda_vector_width(const Program& program, const std::vector<Pass>& passes,
                      LoopVar lane);

/// The same for rows that are not aligned.
inline constexpr int kCudaShiftedVectorWidth = 4;

/// First element of a row, for consecutive rows whose length is no multiple of
/// a vector. All contiguous accesses of a row are then misaligned by the same
/// distance.
std::optional<Index> cuda_row_begin(const Program& program,
                                    const std::vector<Pass>& passes,
                                    LoopVar lane,
                                    const CudaRowChoices& choices);

}  // namespace weft
