#include "compiler/triton/nest.hpp"

#include <algorithm>

#include "compiler/loops/width.hpp"
#include "compiler/triton/dot.hpp"
#include "compiler/triton/nest_text.hpp"
#include "compiler/triton/tiles.hpp"

namespace weft {
std::string NestText::Tile::shape() const {
  return "(" + text(height) + ", " + text(width) + ")";
}

std::string NestText::Tile::column() const {
  return "(" + text(height) + ", 1)";
}

void NestText::print() {
  if (nest_.split) return print_split();
  const bool walks =
      std::any_of(passes_.begin(), passes_.end(),
                  [](const Pass& pass) { return !pass.inner.empty(); });
  walks ? print_rows() : print_elements();
}

std::int64_t NestText::longest() const {
  std::int64_t most = 1;
  for (const Pass& pass : passes_) {
    most = std::max(
        most, is_symbolic(pass.inner) ? kUnbounded : extent_of(pass.inner));
  }
  return most;
}

bool NestText::is_symbolic(const std::vector<LoopVar>& variables) const {
  return weft::is_symbolic(plan_, variables);
}

std::int64_t NestText::tile_max(const std::vector<LoopVar>& variables) const {
  return is_symbolic(variables) ? kUnbounded
                                : power_of_two(extent_of(variables));
}

Count NestText::tiles_of(const std::vector<LoopVar>& variables,
                         std::int64_t extent) const {
  return weft::tiles_of(plan_, variables, extent);
}

bool NestText::is_ragged(const std::vector<LoopVar>& variables,
                         std::int64_t extent) const {
  return weft::is_ragged(plan_, variables, extent);
}

void NestText::choose_width(TritonKernel& kernel, bool has_wide_lanes) const {
  const bool wide = module_.for_sizes() || needs_wide(program(), nest_);
  kernel.set_wide(wide, wide && has_wide_lanes);
}

// Neighbours along the last variable lie beside each other: they are kept
// together, whatever its extent, so that they are read together.
bool NestText::blocks_last() const {
  return nest_.outer_reduction && nest_.outer.size() > 1 &&
         size_hint(plan_, {nest_.outer.back()}) >=
             choices().coalesced_points_min;
}

Count NestText::point_programs(std::int64_t height) const {
  if (!blocks_last()) return tiles_of(nest_.outer, height);
  std::vector<LoopVar> rest = nest_.outer;
  const LoopVar last = rest.back();
  rest.pop_back();
  return product(tiles_of(rest, 1), tiles_of({last}, height));
}

std::string NestText::open_points(TritonKernel& kernel, const std::string& id,
                                  std::int64_t height) const {
  const std::string offsets = "tl.arange(0, " + text(height) + ")[:, None]";
  std::vector<LoopVar> variables = nest_.outer;
  std::string block = id;
  std::string address = "p";
  if (blocks_last()) {
    const LoopVar last = variables.back();
    const std::string width = tiles_of({last}, height).text;
    variables.pop_back();
    kernel.line("outer = " + id + " // " + width);
    kernel.name_variables(variables, "outer", Axis::none, "");
    variables = {last};
    block = "(" + id + " % " + width + ")";
    address = "(outer * " + text(last.extent) + " + p)";
  }
  const std::int64_t points = extent_of(variables);
  const std::string first = block + " * " + text(height);
  kernel.line("first = " + (kernel.wide() && !kernel.has_wide_lanes()
                                ? "(" + first + ").to(tl.int32)"
                                : first));
  kernel.line("p = first + " + offsets);
  const bool ragged = is_ragged(variables, height);
  if (ragged) kernel.line("pm = p < " + text(points));
  kernel.name_variables(variables, "p", Axis::rows, ragged ? "pm" : "");
  return address;
}

void NestText::open_inner(TritonKernel& kernel,
                          const std::vector<LoopVar>& variables,
                          const std::string& first, std::int64_t width,
                          bool ragged) {
  std::string offsets = "tl.arange(0, " + text(width) + ")[None, :]";
  if (kernel.has_wide_lanes()) offsets += ".to(" + kernel.wide_type() + ")";
  kernel.line("r = " + (first.empty() ? "" : first + " + ") + offsets);
  if (ragged) kernel.line("rm = r < " + text(extent_of(variables)));
  kernel.expect_inner(variables);
  kernel.name_variables(variables, "r", Axis::columns, ragged ? "rm" : "");
}

void NestText::store_stage(TritonKernel& kernel, const Stage& stage,
                           const std::string& shape) const {
  std::string value = kernel.operand(stage.value);
  const Scalar& node = program().arena[stage.value];
  if (is_plain_number(node)) {
    value = "tl.full((1, 1), " + value + ", tl.float32)";
  }
  kernel.store(stage.output, stage.offset,
               "tl.broadcast_to(" + value + ", " + shape + ")");
}

void NestText::spill(TritonKernel& kernel, const Stage& stage,
                     const TritonReduction& reduction) const {
  for (std::size_t i = 0; i < stage.results.size(); ++i) {
    const int buffer = stage.results[i];
    if (!plan_.spilled.contains(buffer)) continue;
    std::string value = reduction.names()[i];
    if (i == 1) value += ".to(tl.int64)";
    if (reduction.accumulator_dtype() != program().arena[stage.value].dtype &&
        i == 0) {
      value += " != 0";
    }
    kernel.store(buffer, stage.result_index[0], value);
  }
}

// Where the last variable's neighbours are kept together, all others are
// numbers, and pointers take what these come to.
bool NestText::has_wide_lanes() const {
  if (!blocks_last() || is_symbolic({nest_.outer.back()})) return true;
  for (Index index : positions_of(program(), nest_)) {
    for (std::size_t i = 0; i + 1 < nest_.outer.size(); ++i) {
      const LoopVar outer = nest_.outer[i];
      index = index - Index(outer) * index.coefficient(outer.id);
    }
    if (!fits_32_bits(index)) return true;
  }
  return false;
}

void print_triton_nest(const Schedule& plan, const Nest& nest,
                       const TritonVariant& variant, const GpuFacts& facts,
                       TritonModule& module) {
  const std::size_t before = module.launches.size();
  if (!nest.no_fuse) {
    NestText printer(plan, nest, variant, facts, module);
    printer.print();
    return add_reasons(module, nest, before, printer.tile_reason());
  }
  const auto contraction =
      contraction_of(plan.program, nest.stages.front(), nest.outer,
                     facts.choices.triton.product, plan.symbolic_loops);
  const TileReason tile =
      print_triton_dot(plan, nest, contraction.value(), variant, facts, module);
  add_reasons(module, nest, before, tile);
}

}  // namespace weft
