// Interleaved results of products: where neighbours in memory alternate between
// a tile's rows and columns (the phases of a transposed convolution), the tile
// is turned before it is stored, so that whole sectors are written. A sector
// that is written in parts costs the memory many times as much.
#include <algorithm>

#include "compiler/triton/dot_text.hpp"
#include "compiler/triton/tiles.hpp"

namespace weft {
// Phases are columns, the fastest of them, padded to what a tile is split by;
// unless a tile has more columns than there are.
void DotText::choose_interleave() {
  if (may_split_factors() || it_.rows.empty() || it_.columns.empty()) return;
  const Index index = output_index();
  const auto alternate = [&](const LoopVar& phase, const LoopVar& block) {
    return phase.extent > 1 && phase.extent <= choices_.phases_max &&
           index.coefficient(phase.id) == 1 &&
           index.coefficient(block.id) == phase.extent;
  };
  if (alternate(it_.rows.back(), it_.columns.back())) {
    std::swap(it_.rows, it_.columns);
    std::swap(it_.a, it_.b);
  }
  LoopVar& phase = it_.columns.back();
  const std::int64_t padded = power_of_two(phase.extent);
  if (!alternate(phase, it_.rows.back()) ||
      extent_of(it_.columns) / phase.extent * padded < kTileMin) {
    return;
  }
  phases_ = phase.extent;
  phase.extent = padded;
}

std::string DotText::phase_mask(const std::string& column) const {
  if (phases_ == 0 || phases_ == it_.columns.back().extent) return "";
  return "(" + column + " % " + text(it_.columns.back().extent) + " < " +
         text(phases_) + ")";
}

std::string DotText::turned(const std::string& value) const {
  const std::int64_t phases = it_.columns.back().extent;
  const std::string rows = text(block_m_);
  const std::string others = text(block_n_ / phases);
  return "tl.reshape(tl.permute(tl.reshape(" + value + ", (" + rows + ", " +
         others + ", " + text(phases) + ")), (1, 0, 2)), (" + others + ", " +
         text(block_m_ * phases) + "))";
}

// Rows and phases along the turned tile, the other columns across.
void DotText::open_turned(TritonKernel& kernel) const {
  const std::int64_t phases = it_.columns.back().extent;
  const std::int64_t others = block_n_ / phases;
  std::vector<LoopVar> columns = it_.columns;
  columns.pop_back();
  kernel.line("t = tl.arange(0, " + text(block_m_ * phases) + ")[None, :]");
  kernel.line("m = (row * " + text(block_m_) + " + t // " + text(phases) + ")" +
              wide(kernel));
  kernel.name_variables(it_.rows, "m", Axis::columns,
                        mask(kernel, "m", row_mask("m"), rows_,
                             is_ragged(plan_, it_.rows, block_m_)));
  kernel.line("phase = t % " + text(phases));
  kernel.name_variables({it_.columns.back()}, "phase", Axis::columns,
                        mask(kernel, "phase", "", phases_, phases_ != phases));
  kernel.line("n = (column * " + text(others) + " + tl.arange(0, " +
              text(others) + ")[:, None])" + wide(kernel));
  kernel.name_variables(columns, "n", Axis::rows,
                        mask(kernel, "n", "", extent_of(columns),
                             is_ragged(plan_, columns, others)));
}

}  // namespace weft
