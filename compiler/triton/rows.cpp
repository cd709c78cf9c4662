// Points with folds or scans over their inner elements. A row that fits is
// persistent: each pass over it but the first reads registers.
#include <algorithm>

#include "compiler/triton/nest_text.hpp"

namespace weft {
NestText::Way NestText::way() const {
  const auto walks = [](const Pass& pass) { return !pass.inner.empty(); };
  const bool once = std::count_if(passes_.begin(), passes_.end(), walks) == 1;
  const bool scans =
      std::any_of(passes_.begin(), passes_.end(),
                  [](const Pass& pass) { return pass.scan() != nullptr; });
  if (variant_.windows && nest_.columns && once && !scans &&
      longest() <= choices().window_elements_max) {
    return Way::window;
  }
  const std::int64_t beside = nest_.columns ? choices().column_points : 1;
  const bool fits = power_of_two(longest()) * beside <= variant_.row_max;
  return fits ? Way::persistent : Way::walk;
}

// Each fold of a point has an accumulator in registers.
int NestText::window_points() const {
  std::size_t folds = 1;
  for (const Pass& pass : passes_) {
    folds = std::max(folds, pass.folding().size());
  }
  return std::max(
      1, std::min(choices().window_points_max,
                  choices().window_accumulators_max / static_cast<int>(folds)));
}

NestText::Tile NestText::tile_for(Way way) const {
  const std::int64_t row = power_of_two(longest());
  const std::int64_t all =
      tile_max(blocks_last() ? std::vector{nest_.outer.back()} : nest_.outer);
  Tile tile;
  tile.width = way == Way::persistent ? row
               : way == Way::window   ? 1
               : nest_.columns        ? std::min(choices().column_steps, row)
                                      : variant_.tile;
  const std::int64_t least = nest_.columns ? choices().column_points : 1;
  const std::int64_t elements = std::max(variant_.tile, least * tile.width);
  tile.height = std::min(elements / tile.width, all);
  if (way == Way::persistent && !nest_.recomputed.empty()) {
    tile.height = std::min(recomputing_points(tile.width), all);
  }
  return tile;
}

// Points that share a recomputed row: as many as leave each multiprocessor
// several programs, and whose own rows fit into registers.
std::int64_t NestText::recomputing_points(std::int64_t width) const {
  constexpr std::int64_t kProgramsPerMultiprocessor = 2;
  if (module_.for_sizes()) return 1;
  std::size_t rows = 1;
  for (const Pass& pass : passes_) {
    rows = std::max(rows, pass.folding().size());
  }
  std::int64_t points = variant_.recomputing_points;
  while (points > 1 && (points * static_cast<std::int64_t>(rows) * width >
                            choices().recomputing_elements_max ||
                        extent_of(nest_.outer) <
                            points * kProgramsPerMultiprocessor * facts_.sms)) {
    points /= 2;
  }
  return points;
}

NestText::Tile NestText::tile_across(LoopVar across) const {
  Tile tile;
  tile.height =
      std::min(choices().column_points, tile_max({nest_.outer.back()}));
  tile.width = std::min(std::max(variant_.tile / tile.height,
                                 facts_.choices.loops.coalesced_elements),
                        tile_max({across}));
  return tile;
}

Count NestText::open_points_across(TritonKernel& kernel, LoopVar across,
                                   Tile tile) const {
  std::vector<LoopVar> rest = nest_.outer;
  const LoopVar last = rest.back();
  rest.pop_back();
  std::erase(rest, across);
  const std::string id = kernel.program_id();
  const Count beside = tiles_of({last}, tile.height);
  const Count along = tiles_of({across}, tile.width);
  kernel.line("outer = " + id + " // " + product(beside, along).text);
  kernel.name_variables(rest, "outer", Axis::none, "");
  const bool ragged = is_ragged({last}, tile.height);
  kernel.line("p = " + id + " % " + beside.text + " * " + text(tile.height) +
              " + tl.arange(0, " + text(tile.height) + ")[:, None]");
  if (ragged) kernel.line("pm = p < " + text(last.extent));
  kernel.name_variables({last}, "p", Axis::rows, ragged ? "pm" : "");
  const bool frayed = is_ragged({across}, tile.width);
  kernel.line("q = " + id + " // " + beside.text + " % " + along.text + " * " +
              text(tile.width) + " + tl.arange(0, " + text(tile.width) +
              ")[None, :]");
  if (frayed) kernel.line("qm = q < " + text(across.extent));
  kernel.name_variables({across}, "q", Axis::columns, frayed ? "qm" : "");
  return product(tiles_of(rest, 1), product(beside, along));
}

void NestText::print_rows() {
  TritonKernel kernel(program(), module_);
  choose_width(kernel, has_wide_lanes());
  const Way way = this->way();
  Tile tile = tile_for(way);
  const auto across = way == Way::window ? crossing() : std::nullopt;
  if (way == Way::window && !across) tile = interior_tile(tile);
  Count programs = point_programs(tile.height);
  if (across) {
    tile = tile_across(*across);
    programs = open_points_across(kernel, *across, tile);
  } else {
    open_points(kernel, kernel.program_id(), tile.height);
  }
  const std::string of_points =
      way == Way::window ? tile.shape() : tile.column();
  if (way == Way::window && !across && has_interior(tile)) {
    print_interior(kernel, tile, of_points);
  } else {
    print_passes(kernel, tile, way, of_points);
  }
  const std::int64_t elements = tile.height * tile.width;
  const bool keeps_row = way == Way::persistent && !nest_.columns;
  int per_thread = keeps_row ? variant_.row_per_thread : variant_.per_thread;
  if (way == Way::window) per_thread = std::min(window_points(), per_thread);
  // Of rows that lie side by side each thread folds a piece: long ones.
  if (way == Way::persistent && nest_.columns) {
    per_thread = std::max(choices().column_elements_per_thread_min, per_thread);
  }
  kernel.finish(programs, warps_for(elements, per_thread));
}

void NestText::print_passes(TritonKernel& kernel, Tile tile, Way way,
                            const std::string& of_points) const {
  const Pass* before = nullptr;
  for (const Pass& pass : passes_) {
    if (pass.inner.empty()) {
      print_points(kernel, pass, of_points);
      continue;
    }
    const bool again = before != nullptr && before->inner == pass.inner;
    if (way == Way::persistent && !again) open_persistent(kernel, pass);
    if (pass.scan() != nullptr) {
      print_scan(kernel, pass, tile, way);
    } else {
      print_pass(kernel, pass, tile, way);
    }
    before = &pass;
  }
}

void NestText::open_persistent(TritonKernel& kernel, const Pass& pass) const {
  kernel.forget_inner();
  const std::int64_t extent = extent_of(pass.inner);
  const std::int64_t width = power_of_two(extent);
  open_inner(kernel, pass.inner, "", width, width != extent);
}

void NestText::print_pass(TritonKernel& kernel, const Pass& pass, Tile tile,
                          Way way) const {
  std::vector<TritonFold> folds;
  for (const Stage* stage : pass.folding()) {
    folds.emplace_back(program(), *stage);
  }
  if (way == Way::persistent) {
    tile.width = power_of_two(extent_of(pass.inner));
    print_tile(kernel, pass, folds, tile, true);
  } else {
    print_walk(kernel, pass, folds, tile, way);
  }
  std::size_t at = 0;
  for (const Stage* stage : pass.folding()) {
    folds[at].conclude(kernel);
    spill(kernel, *stage, folds[at++]);
  }
}

void NestText::print_points(TritonKernel& kernel, const Pass& pass,
                            const std::string& shape) const {
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), false);
    if (!stage->folds) {
      store_stage(kernel, *stage, shape);
      continue;
    }
    // A fold of one element is that element.
    const TritonFold fold(program(), *stage);
    fold.reduce(kernel, fold.tile(kernel, shape, ""));
    fold.conclude(kernel);
    spill(kernel, *stage, fold);
  }
}

void NestText::print_walk(TritonKernel& kernel, const Pass& pass,
                          const std::vector<TritonFold>& folds, Tile tile,
                          Way way) const {
  const std::int64_t extent = extent_of(pass.inner);
  kernel.forget_inner();
  kernel.expect_inner(pass.inner);
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), true);
  }
  for (const TritonFold& fold : folds) fold.begin(kernel, tile.shape());
  if (way == Way::window) {
    const bool unrolled = extent <= choices().unrolled_window_elements_max;
    kernel.line(std::string("for step in ") +
                (unrolled ? "tl.static_range(" : "range(") + text(extent) +
                "):");
    kernel.indent();
    kernel.line("r = step + tl.zeros((1, 1), tl.int32)");
    kernel.expect_inner(pass.inner);
    kernel.name_variables(pass.inner, "r", Axis::step, "");
  } else {
    kernel.line("for start in range(0, " + text(extent) + ", " +
                text(tile.width) + "):");
    kernel.indent();
    open_inner(kernel, pass.inner, "start", tile.width,
               is_ragged(pass.inner, tile.width));
  }
  print_tile(kernel, pass, folds, tile, false);
  kernel.dedent();
  kernel.forget_inner();
  if (way == Way::window) return;
  for (const TritonFold& fold : folds) fold.reduce(kernel, fold.names());
}

// One tile of a pass: its folds take it (and end with it where it is the
// `whole` row), its other stages store it.
void NestText::print_tile(TritonKernel& kernel, const Pass& pass,
                          const std::vector<TritonFold>& folds, Tile tile,
                          bool whole) const {
  std::size_t at = 0;
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), false);
    if (!stage->folds) {
      store_stage(kernel, *stage, tile.shape());
      continue;
    }
    const TritonFold& fold = folds[at++];
    const auto values =
        fold.tile(kernel, tile.shape(), kernel.mask_of(pass.inner));
    whole ? fold.reduce(kernel, values) : fold.take(kernel, values);
  }
}

// Running values along a row; the pass's other stages take them as they come.
void NestText::print_scan(TritonKernel& kernel, const Pass& pass, Tile tile,
                          Way way) const {
  const TritonFold fold(program(), *pass.scan());
  const std::int64_t extent = extent_of(pass.inner);
  if (way == Way::persistent) {
    tile.width = power_of_two(extent);
    return print_scan_tile(kernel, pass, fold, "", tile);
  }
  kernel.forget_inner();
  const std::string carry = "carry" + fold.names()[0].substr(1);
  kernel.line(carry + " = tl.full(" + tile.column() + ", " + fold.neutral(0) +
              ", " + triton_type(fold.accumulator_dtype()) + ")");
  kernel.line("for start in range(0, " + text(extent) + ", " +
              text(tile.width) + "):");
  kernel.indent();
  open_inner(kernel, pass.inner, "start", tile.width,
             is_ragged(pass.inner, tile.width));
  print_scan_tile(kernel, pass, fold, carry, tile);
  kernel.dedent();
  kernel.forget_inner();
}

void NestText::print_scan_tile(TritonKernel& kernel, const Pass& pass,
                               const TritonFold& fold, const std::string& carry,
                               Tile tile) const {
  const Stage& scan = *pass.scan();
  kernel.compute(roots_of(scan), false);
  const auto values =
      fold.tile(kernel, tile.shape(), kernel.mask_of(pass.inner));
  fold.scan(kernel, values[0], carry);
  kernel.set_result(scan.results[0], fold.names()[0], true);
  spill(kernel, scan, fold);
  for (const Stage* stage : pass.stages) {
    if (stage == &scan) continue;
    kernel.compute(roots_of(*stage), false);
    store_stage(kernel, *stage, tile.shape());
  }
}

}  // namespace weft
