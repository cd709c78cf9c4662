// The points of a nest: how they are put into blocks and given to threads.
#include <algorithm>

#include "compiler/cpu/nest.hpp"

namespace weft {

void NestPrinter::choose_block() {
  const std::int64_t vector_width = variant_.vector_width;
  const std::string shares =
      nest_.split ? "; points are few, so the cores share each reduction" : "";
  tile_reason_ = {"rows in vectors of " + text(vector_width),
                  "neighbours along the last inner loop are neighbours in "
                  "memory, so vectors run along it" +
                      shares};
  if (!nest_.outer_reduction) return;
  std::string why = "the variant's own; timing compares the variants";
  const std::int64_t extent = nest_.outer.back().extent;
  const CpuChoices& choices = facts_.choices.cpu;
  std::int64_t block = variant_.block;
  if (!nest_.stages.front().is_store()) {
    block = std::min(block, choices.fold_columns_max);
    std::int64_t rows = 1;
    for (const Stage& stage : nest_.stages) {
      rows = std::max(rows, size_hint(stage.inner));
    }
    // Rows that several passes walk stay in cache; one pass wants long pieces
    // of each row, but a block for every thread.
    const bool again = passes_of(program(), nest_).size() > 1;
    const std::int64_t fits =
        again ? facts_.l2_bytes / choices.columns_l2_divisor / (4 * rows)
              : size_hint({nest_.outer.back()}) / (2 * facts_.cores);
    block = std::clamp<std::int64_t>(
        fits, std::min(choices.fold_columns_min, block), block);
    why = again ? "several passes walk the rows, so a block of all rows stays "
                  "in a part of the L2 cache (cpu.columns_l2_divisor)"
                : "one pass walks the rows, so pieces are long, with a block "
                  "for every core";
  } else if (blocks_outside()) {
    block = std::min(block, choices.down_columns_max);
    why =
        "something is read across its grain, so the next row finds the "
        "block's lines in the cache (cpu.down_columns_max)";
  }
  // Of another size there may be more of them.
  if (!variant_.for_sizes()) block = std::min(block, extent);
  block_ = (block + vector_width - 1) / vector_width * vector_width;
  tile_reason_ = {
      text(block_) + " columns at a time, in vectors of " + text(vector_width),
      why + shares};
}

// Whether the loop over blocks goes outside the other points: where something
// is read across its grain, the next row finds the block's lines in cache.
bool NestPrinter::blocks_outside() const {
  if (!nest_.outer_reduction || !nest_.stages.front().is_store()) return false;
  const int v = nest_.outer.back().id;
  for (const Stage& stage : nest_.stages) {
    for (const ExprId id : program().arena.reachable({stage.value})) {
      const Scalar& node = program().arena[id];
      if (node.op != ScalarOp::load || node.index.empty()) continue;
      if (std::abs(node.index[0].coefficient(v)) > 1) return true;
    }
  }
  return false;
}

// The loop over points, which the threads share.
void NestPrinter::open_points(bool parallel) {
  const std::int64_t extent =
      nest_.outer_reduction ? nest_.outer.back().extent : 1;
  const Count blocks = parts(extent, block_);
  const std::size_t plain =
      nest_.outer.size() - (nest_.outer_reduction ? 1 : 0);
  const LoopVar* tiled = tile_variable();
  // Of the tiled variable, a point is W values.
  const auto count = [&](LoopVar v) {
    return parts(v.extent,
                 tiled != nullptr && v == *tiled ? variant_.vector_width : 1);
  };
  Count points = blocks;
  for (std::size_t i = 0; i < plain; ++i)
    points = product(points, count(nest_.outer[i]));
  if (parallel) out_.line("#pragma omp parallel for schedule(static)");
  out_.open("for (int64_t p = 0; p < " + points.text + "; ++p)");
  const bool outside = blocks_outside();
  Count below = outside ? Count{} : blocks;
  for (std::size_t i = plain; i-- > 0;) {
    std::string value = "p";
    if (!below.is_one) value += " / " + below.text;
    const LoopVar variable = nest_.outer[i];
    below = product(below, count(variable));
    if (i > 0 ? below.value < points.value || variant_.for_sizes()
              : outside && !blocks.is_one)
      value += " % " + count(variable).text;
    if (tiled != nullptr && variable == *tiled) {
      out_.line("const int64_t tile = (" + value + ") * W;");
    } else {
      out_.line("const int64_t " + name(variable) + " = " + value + ";");
    }
  }
  if (!nest_.outer_reduction) return;
  std::string block = outside ? "p / " + below.text : "p % " + blocks.text;
  if (blocks.is_one) block = "0";
  out_.line("const int64_t first = " + block + " * " + text(block_) + ";");
  out_.line("const int64_t last = std::min<int64_t>(" + text(extent) +
            ", first + " + text(block_) + ");");
}

}  // namespace weft
