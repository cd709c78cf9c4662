// Points with reductions or scans over their inner elements. A row that fits is
// persistent: each pass over it but the first reads registers.
#include <algorithm>

#include "compiler/triton/nest_text.hpp"

namespace weft {
std::pair<NestText::Traversal, std::string> NestText::choose_traversal() const {
  const auto walks = [](const Pass& pass) { return !pass.inner.empty(); };
  const bool once = std::count_if(passes_.begin(), passes_.end(), walks) == 1;
  const bool scans =
      std::any_of(passes_.begin(), passes_.end(),
                  [](const Pass& pass) { return pass.scan() != nullptr; });
  if (variant_.windows && nest_.outer_reduction && once && !scans &&
      longest() <= choices().window_elements_max) {
    return {Traversal::window,
            "a window has " + text(longest()) +
                " elements, so each is read by itself for many points "
                "(triton.nest.window_elements_max)"};
  }
  const std::int64_t beside =
      nest_.outer_reduction ? choices().column_points : 1;
  const bool fits = power_of_two(longest()) * beside <= variant_.row_max;
  const std::string elements =
      "a row has " +
      (longest() == kUnbounded ? "any number of" : text(longest())) +
      " elements";
  const std::string most =
      " than the variant keeps in registers (" + text(variant_.row_max) + ")";
  if (fits) {
    return {Traversal::persistent,
            elements + ", no more" + most + ", so it is read once"};
  }
  return {Traversal::walk,
          elements + ", more" + most + ", so it is walked tile by tile"};
}

// Number of reductions of the pass that has most of them, at least 1.
int NestText::reductions_max() const {
  std::size_t reductions = 1;
  for (const Pass& pass : passes_) {
    reductions = std::max(reductions, pass.reductions().size());
  }
  return static_cast<int>(reductions);
}

// Each reduction of a point has an accumulator in registers.
int NestText::window_points() const {
  return std::max(
      1, std::min(choices().window_points_max,
                  choices().window_accumulators_max / reductions_max()));
}

NestText::Tile NestText::tile_for(Traversal traversal) const {
  const std::int64_t row = power_of_two(longest());
  const std::int64_t all =
      tile_max(blocks_last() ? std::vector{nest_.outer.back()} : nest_.outer);
  Tile tile;
  tile.width = traversal == Traversal::persistent ? row
               : traversal == Traversal::window   ? 1
               : nest_.outer_reduction ? std::min(choices().column_steps, row)
                                       : variant_.tile;
  const std::int64_t least =
      nest_.outer_reduction ? choices().column_points : 1;
  const std::int64_t elements = std::max(variant_.tile, least * tile.width);
  tile.height = std::min(elements / tile.width, all);
  if (traversal == Traversal::persistent && !nest_.recomputed.empty()) {
    tile.height = std::min(recomputing_points(tile.width), all);
  }
  return tile;
}

// Points that share a recomputed row. The rows that only one point reads fit
// into registers, and each multiprocessor has several programs.
std::int64_t NestText::recomputing_points(std::int64_t width) const {
  if (module_.for_sizes()) return 1;
  const std::int64_t elements = reductions_max() * width;  // of a point's rows
  const std::int64_t programs = choices().recomputing_programs_min * facts_.sms;
  std::int64_t points = variant_.recomputing_points;
  while (points > 1 &&
         (points * elements > choices().recomputing_elements_max ||
          points * programs > extent_of(nest_.outer))) {
    points /= 2;
  }
  return points;
}

NestText::Tile NestText::transposed_tile(LoopVar transposed) const {
  Tile tile;
  tile.height =
      std::min(choices().column_points, tile_max({nest_.outer.back()}));
  tile.width = std::min(std::max(variant_.tile / tile.height,
                                 facts_.choices.loops.coalesced_elements),
                        tile_max({transposed}));
  return tile;
}

Count NestText::open_transposed_points(TritonKernel& kernel, LoopVar transposed,
                                       Tile tile) const {
  std::vector<LoopVar> rest = nest_.outer;
  const LoopVar last = rest.back();
  rest.pop_back();
  std::erase(rest, transposed);
  const std::string id = kernel.program_id();
  const Count beside = tiles_of({last}, tile.height);
  const Count along = tiles_of({transposed}, tile.width);
  kernel.line("outer = " + id + " // " + product(beside, along).text);
  kernel.name_variables(rest, "outer", Axis::none, "");
  const bool ragged = is_ragged({last}, tile.height);
  kernel.line("p = " + id + " % " + beside.text + " * " + text(tile.height) +
              " + tl.arange(0, " + text(tile.height) + ")[:, None]");
  if (ragged) kernel.line("pm = p < " + text(last.extent));
  kernel.name_variables({last}, "p", Axis::rows, ragged ? "pm" : "");
  const bool frayed = is_ragged({transposed}, tile.width);
  kernel.line("q = " + id + " // " + beside.text + " % " + along.text + " * " +
              text(tile.width) + " + tl.arange(0, " + text(tile.width) +
              ")[None, :]");
  if (frayed) kernel.line("qm = q < " + text(transposed.extent));
  kernel.name_variables({transposed}, "q", Axis::columns, frayed ? "qm" : "");
  return product(tiles_of(rest, 1), product(beside, along));
}

void NestText::print_rows() {
  TritonKernel kernel(program(), module_);
  choose_width(kernel, has_wide_lanes());
  const auto [traversal, why] = choose_traversal();
  Tile tile = tile_for(traversal);
  const auto transposed =
      traversal == Traversal::window ? transposed_loop() : std::nullopt;
  if (traversal == Traversal::window && !transposed) tile = interior_tile(tile);
  Count programs = point_programs(tile.height);
  if (transposed) {
    tile = transposed_tile(*transposed);
    programs = open_transposed_points(kernel, *transposed, tile);
  } else {
    open_points(kernel, kernel.program_id(), tile.height);
  }
  tile_reason_ = {text(tile.height) + "x" + text(tile.width),
                  transposed
                      ? "reads and stores are contiguous along different "
                        "dimensions, so the tile is long both ways"
                      : why};
  const std::string of_points =
      traversal == Traversal::window ? tile.shape() : tile.column();
  if (traversal == Traversal::window && !transposed && has_interior(tile)) {
    print_interior(kernel, tile, of_points);
  } else {
    print_passes(kernel, tile, traversal, of_points);
  }
  const std::int64_t elements = tile.height * tile.width;
  const bool keeps_row =
      traversal == Traversal::persistent && !nest_.outer_reduction;
  int per_thread = keeps_row ? variant_.row_per_thread : variant_.per_thread;
  if (traversal == Traversal::window)
    per_thread = std::min(window_points(), per_thread);
  // Of rows that lie side by side each thread reduces a piece: long ones.
  if (traversal == Traversal::persistent && nest_.outer_reduction) {
    per_thread = std::max(choices().column_elements_per_thread_min, per_thread);
  }
  kernel.finish(programs, warps_for(elements, per_thread));
}

void NestText::print_passes(TritonKernel& kernel, Tile tile,
                            Traversal traversal,
                            const std::string& of_points) const {
  const Pass* before = nullptr;
  for (const Pass& pass : passes_) {
    if (pass.inner.empty()) {
      print_points(kernel, pass, of_points);
      continue;
    }
    const bool again = before != nullptr && before->inner == pass.inner;
    if (traversal == Traversal::persistent && !again)
      open_persistent(kernel, pass);
    if (pass.scan() != nullptr) {
      print_scan(kernel, pass, tile, traversal);
    } else {
      print_pass(kernel, pass, tile, traversal);
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
                          Traversal traversal) const {
  std::vector<TritonReduction> reductions;
  for (const Stage* stage : pass.reductions()) {
    reductions.emplace_back(program(), *stage);
  }
  if (traversal == Traversal::persistent) {
    tile.width = power_of_two(extent_of(pass.inner));
    print_tile(kernel, pass, reductions, tile, true);
  } else {
    print_walk(kernel, pass, reductions, tile, traversal);
  }
  std::size_t at = 0;
  for (const Stage* stage : pass.reductions()) {
    reductions[at].conclude(kernel);
    spill(kernel, *stage, reductions[at++]);
  }
}

void NestText::print_points(TritonKernel& kernel, const Pass& pass,
                            const std::string& shape) const {
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), false);
    if (!stage->is_reduction) {
      store_stage(kernel, *stage, shape);
      continue;
    }
    // A reduction of one element is that element.
    const TritonReduction reduction(program(), *stage);
    reduction.reduce(kernel, reduction.tile(kernel, shape, ""));
    reduction.conclude(kernel);
    spill(kernel, *stage, reduction);
  }
}

void NestText::print_walk(TritonKernel& kernel, const Pass& pass,
                          const std::vector<TritonReduction>& reductions,
                          Tile tile, Traversal traversal) const {
  const std::int64_t extent = extent_of(pass.inner);
  kernel.forget_inner();
  kernel.expect_inner(pass.inner);
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), true);
  }
  for (const TritonReduction& reduction : reductions)
    reduction.begin(kernel, tile.shape());
  if (traversal == Traversal::window) {
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
  print_tile(kernel, pass, reductions, tile, false);
  kernel.dedent();
  kernel.forget_inner();
  if (traversal == Traversal::window) return;
  for (const TritonReduction& reduction : reductions)
    reduction.reduce(kernel, reduction.names());
}

// One tile of a pass: its reductions take it (and end with it where it is the
// `whole` row), its other stages store it.
void NestText::print_tile(TritonKernel& kernel, const Pass& pass,
                          const std::vector<TritonReduction>& reductions,
                          Tile tile, bool whole) const {
  std::size_t at = 0;
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), false);
    if (!stage->is_reduction) {
      store_stage(kernel, *stage, tile.shape());
      continue;
    }
    const TritonReduction& reduction = reductions[at++];
    const auto values =
        reduction.tile(kernel, tile.shape(), kernel.mask_of(pass.inner));
    whole ? reduction.reduce(kernel, values) : reduction.take(kernel, values);
  }
}

// Running values along a row; the pass's other stages take them as they come.
void NestText::print_scan(TritonKernel& kernel, const Pass& pass, Tile tile,
                          Traversal traversal) const {
  const TritonReduction reduction(program(), *pass.scan());
  const std::int64_t extent = extent_of(pass.inner);
  if (traversal == Traversal::persistent) {
    tile.width = power_of_two(extent);
    return print_scan_tile(kernel, pass, reduction, "", tile);
  }
  kernel.forget_inner();
  const std::string carry = "carry" + reduction.names()[0].substr(1);
  kernel.line(carry + " = tl.full(" + tile.column() + ", " +
              reduction.neutral(0) + ", " +
              triton_type(reduction.accumulator_dtype()) + ")");
  kernel.line("for start in range(0, " + text(extent) + ", " +
              text(tile.width) + "):");
  kernel.indent();
  open_inner(kernel, pass.inner, "start", tile.width,
             is_ragged(pass.inner, tile.width));
  print_scan_tile(kernel, pass, reduction, carry, tile);
  kernel.dedent();
  kernel.forget_inner();
}

void NestText::print_scan_tile(TritonKernel& kernel, const Pass& pass,
                               const TritonReduction& reduction,
                               const std::string& carry, Tile tile) const {
  const Stage& scan = *pass.scan();
  kernel.compute(roots_of(scan), false);
  const auto values =
      reduction.tile(kernel, tile.shape(), kernel.mask_of(pass.inner));
  reduction.scan(kernel, values[0], carry);
  kernel.set_result(scan.results[0], reduction.names()[0], true);
  spill(kernel, scan, reduction);
  for (const Stage* stage : pass.stages) {
    if (stage == &scan) continue;
    kernel.compute(roots_of(*stage), false);
    store_stage(kernel, *stage, tile.shape());
  }
}

}  // namespace weft
