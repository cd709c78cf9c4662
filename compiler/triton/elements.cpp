// Nests without reductions: one element after the other, in rows where the last
// dimension is long, so that what depends on the row is computed once for it.
// Where some tensor lies across the others, in tiles that are long both ways.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "compiler/triton/nest_text.hpp"

namespace weft {
namespace {

/// The flat positions that the nest's stages read and write.
std::vector<Index> positions(const Program& program, const Nest& nest) {
  std::vector<Index> all;
  for (const Stage& stage : nest.stages) {
    if (stage.is_store()) all.push_back(stage.offset);
    for (const ExprId id : program.arena.reachable({stage.value})) {
      const Scalar& node = program.arena[id];
      if (node.op == ScalarOp::load && node.index.size() == 1) {
        all.push_back(node.index[0]);
      }
    }
  }
  return all;
}

}  // namespace

void NestText::print_elements() {
  TritonKernel kernel(program(), module_);
  choose_width(kernel, true);
  std::vector<LoopVar> rows = nest_.outer;
  std::vector<LoopVar> columns;
  std::int64_t block = std::min(variant_.tile, tile_max(nest_.outer));
  std::int64_t elements = variant_.tile;
  const auto transposed = transposed_loop();
  if (transposed) {
    columns = {rows.back()};
    rows.pop_back();
    std::erase(rows, *transposed);
    rows.push_back(*transposed);
    const std::int64_t width = variant_.tile < 1024
                                   ? choices().row_elements_min
                                   : 2 * choices().row_elements_min;
    elements = width * (variant_.tile < 4096 ? 32 : 64);
    block = std::min(width, tile_max(columns));
  } else if (rows.size() > 1 && !is_symbolic({rows.back()}) &&
             fills_rows(rows.back().extent)) {
    columns = {rows.back()};
    rows.pop_back();
    block = std::min(block, row_block(columns[0].extent));
  } else {
    std::swap(rows, columns);
  }
  const std::int64_t height =
      std::min(std::max<std::int64_t>(1, elements / block), tile_max(rows));
  tile_reason_ = {
      text(height) + "x" + text(block),
      transposed ? "neighbours lie along different dimensions in what is read "
                   "and stored, so the tile is long both ways"
      : rows.empty() || columns.empty()
          ? "elements are independent, so a program takes as many as the "
            "variant has in its tile"
          : "rows fill blocks of " + text(block) +
                " elements, so that what depends on the row is computed once"};
  const Count width = tiles_of(columns, block);
  const std::string id = kernel.program_id();
  std::string at = id;
  if (!rows.empty()) {
    at = id + " % " + width.text;
    kernel.line("p = " + id + " // " + width.text + " * " + text(height) +
                " + tl.arange(0, " + text(height) + ")[:, None]");
    const bool ragged = is_ragged(rows, height);
    if (ragged) kernel.line("pm = p < " + text(extent_of(rows)));
    kernel.name_variables(rows, "p", Axis::rows, ragged ? "pm" : "");
  }
  open_inner(kernel, columns, "(" + at + ") * " + text(block), block,
             is_ragged(columns, block));
  const std::string shape = Tile{height, block}.shape();
  for (const Stage& stage : nest_.stages) {
    kernel.compute(roots_of(stage), false);
    if (!stage.is_reduction) {
      store_stage(kernel, stage, shape);
      continue;
    }
    // A reduction of one element is that element.
    const std::string value = kernel.operand(stage.value);
    kernel.set_result(stage.results[0], value, true);
    if (plan_.spilled.contains(stage.results[0])) {
      kernel.store(stage.results[0], stage.result_index[0],
                   "tl.broadcast_to(" + value + ", " + shape + ")");
    }
  }
  kernel.finish(product(tiles_of(rows, height), width),
                transposed ? std::min(8, warps_for(height * block, 8))
                           : warps_for(height * block, variant_.per_thread));
}

// A variable along which neighbours lie in a tensor whose elements are far
// apart along the last one, which the others follow.
std::optional<LoopVar> NestText::transposed_loop() const {
  const std::int64_t coalesced = facts_.choices.loops.coalesced_elements;
  if (nest_.outer.size() < 2 ||
      size_hint(plan_, {nest_.outer.back()}) < coalesced)
    return {};
  for (const Index& index : positions(program(), nest_)) {
    if (std::abs(index.coefficient(nest_.outer.back().id)) < coalesced)
      continue;
    std::vector<LoopVar> used;
    std::optional<LoopVar> found;
    for (const LoopVar& variable : nest_.outer) {
      if (index.uses(variable.id)) used.push_back(variable);
      if (index.coefficient(variable.id) == 1) found = variable;
    }
    if (found && size_hint(plan_, {*found}) >= coalesced &&
        2 * size_hint(plan_, used) > size_hint(plan_, nest_.outer)) {
      return found;
    }
  }
  return {};
}

bool NestText::fills_rows(std::int64_t extent) const {
  if (extent < choices().row_elements_min) return false;
  const std::int64_t block = row_block(extent);
  return 5 * extent >= 4 * ceil_div(extent, block) * block;
}

// Of the blocks that waste least, the largest.
std::int64_t NestText::row_block(std::int64_t extent) const {
  const std::int64_t most = std::min<std::int64_t>(variant_.tile, 2 * extent);
  std::int64_t best = choices().row_elements_min;
  for (std::int64_t block = choices().row_elements_min; block <= most;
       block *= 2) {
    const std::int64_t waste = ceil_div(extent, block) * block;
    if (waste <= ceil_div(extent, best) * best) best = block;
  }
  return best;
}

}  // namespace weft
