// Tiles: where a store walks one dimension and a load another, squares of
// elements are turned in registers. Element by element, each would cost an
// instruction, and lines that lie a power of two apart push each other out of
// the cache.
#include "compiler/cpu/nest.hpp"

namespace weft {

// Whether the load's neighbours are along `row`, while lanes lie apart.
bool NestPrinter::is_turned(const Scalar& load, LoopVar row) const {
  if (load.op != ScalarOp::load || load.index.size() != 1) return false;
  if (load.dtype == DType::boolean || load.guarded) return false;
  const Index& index = load.index[0];
  const int lane = nest_.outer.back().id;
  return index.coefficient(row.id) == 1 && !index.hides(row.id) &&
         index.coefficient(lane) > 1 && !index.hides(lane);
}

// The outer variable along which tiles are W long, or null.
const LoopVar* NestPrinter::tile_variable() const {
  if (!nest_.outer_reduction || nest_.split || nest_.stages.size() != 1)
    return nullptr;
  const Stage& stage = nest_.stages.front();
  if (!stage.is_store() || !stage.inner.empty()) return nullptr;
  const LoopVar lane = nest_.outer.back();
  if (stage.offset.coefficient(lane.id) != 1 ||
      lane.extent < variant_.vector_width) {
    return nullptr;
  }
  for (std::size_t i = 0; i + 1 < nest_.outer.size(); ++i) {
    const LoopVar& row = nest_.outer[i];
    if (row.extent < variant_.vector_width / 2) continue;
    for (const ExprId id : program().arena.reachable({stage.value})) {
      if (is_turned(program().arena[id], row)) return &row;
    }
  }
  return nullptr;
}

// The body for W rows: turned loads first, then row by row.
void NestPrinter::print_tile(const Pass& pass, PrintScope scope, LoopVar row) {
  const int lane = nest_.outer.back().id;
  out_.line("const int64_t rows = std::min<int64_t>(W, " + text(row.extent) +
            " - tile);");
  for (const ExprId id : expressions(pass)) {
    const Scalar& node = program().arena[id];
    if (!is_turned(node, row)) continue;
    const Index& index = node.index[0];
    const std::string tile = "x" + text(id);
    out_.line(vector_type(node.dtype) + " " + tile + "[W];");
    out_.open("");
    out_.line("const int64_t " + name(row) + " = tile;");
    out_.line("turned(" + tile + ", " + program().buffers[node.buffer].name +
              " + " + index.text() + ", " + text(index.coefficient(lane)) +
              ", lanes, rows);");
    out_.close();
    scope.names[id] = tile + "[row]";
  }
  out_.open("for (int64_t row = 0; row < rows; ++row)");
  out_.line("const int64_t " + name(row) + " = tile + row;");
  print_body(pass, std::move(scope));
  out_.close();
}

}  // namespace weft
