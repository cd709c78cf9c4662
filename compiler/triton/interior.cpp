// Windows whose guards hold for most tiles: those tiles are told apart, and
// read without masks.
#include <algorithm>
#include <set>

#include "compiler/triton/nest_text.hpp"

namespace weft {
namespace {

/// The least that the bound comes to in a tile of `height` points from `first`
/// on, which takes the last variable's place.
Index least_in_tile(const Index& bound, const Nest& nest, std::int64_t height) {
  Index least = bound;
  std::map<int, LoopVar> used;
  bound.collect(used);
  for (const LoopVar& outer : nest.outer) used.erase(outer.id);
  for (const auto& [id, inner] : used) {
    const bool falls = bound.coefficient(id) < 0;
    least = least.substitute({{id, Index(falls ? inner.extent - 1 : 0)}});
  }
  const std::int64_t step = bound.coefficient(nest.outer.back().id);
  return step < 0 ? least + Index(step * (height - 1)) : least;
}

}  // namespace

NestText::Tile NestText::interior_tile(Tile tile) const {
  Tile narrow = tile;
  narrow.height = std::min(tile.height, choices().interior_points_min);
  if (!has_interior(narrow)) return tile;
  while (!has_interior(tile)) tile.height /= 2;
  return tile;
}

bool NestText::has_interior(Tile tile) const {
  if (!blocks_last() || is_symbolic({nest_.outer.back()})) return false;
  const std::int64_t extent = nest_.outer.back().extent;
  const bool masks =
      !nest_.interior.bounds.empty() || extent % tile.height != 0;
  const auto holds_somewhere = [&](const Index& bound) {
    return least_in_tile(bound, nest_, tile.height).range().second >= 0;
  };
  return masks && choices().interior_tiles_min * tile.height <= extent &&
         std::ranges::all_of(nest_.interior.bounds, holds_somewhere);
}

void NestText::print_interior(TritonKernel& kernel, Tile tile,
                              const std::string& of_points) const {
  const LoopVar last = nest_.outer.back();
  const bool ragged = last.extent % tile.height != 0;
  kernel.name_variables({last}, "first", Axis::none, "");
  std::set<std::string> conditions;
  for (const Index& bound : nest_.interior.bounds) {
    const Index least = least_in_tile(bound, nest_, tile.height);
    if (least.range().first >= 0) continue;
    conditions.insert("(" + kernel.index(least) + " >= 0)");
  }
  if (ragged) {
    conditions.insert("(first + " + text(tile.height) +
                      " <= " + text(last.extent) + ")");
  }
  std::string inside;
  for (const std::string& condition : conditions) {
    inside += (inside.empty() ? "" : " & ") + condition;
  }
  kernel.line("inside = " + (inside.empty() ? "True" : inside));
  Nest nest = nest_;
  if (!nest_.interior.bounds.empty()) nest.stages = nest_.interior.stages;
  const auto names = kernel.names();
  kernel.line("if inside:");
  kernel.indent();
  kernel.name_variables({last}, "p", Axis::rows, "");
  NestText(plan_, nest, variant_, facts_, module_)
      .print_passes(kernel, tile, Traversal::window, of_points);
  kernel.dedent();
  kernel.set_names(names);
  kernel.line("else:");
  kernel.indent();
  kernel.name_variables({last}, "p", Axis::rows, ragged ? "pm" : "");
  print_passes(kernel, tile, Traversal::window, of_points);
  kernel.dedent();
}

}  // namespace weft
