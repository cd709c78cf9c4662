// Few points and much to reduce: each program reduces a share of one block of
// points, and a second kernel reduces what they left.
#include <algorithm>

#include "compiler/triton/nest_text.hpp"

namespace weft {
namespace {

std::string part(const TritonReduction& reduction, std::size_t i) {
  return "part" + reduction.names()[i].substr(1);
}

}  // namespace

void NestText::print_split() {
  // Into how many shares goes by how many points there are.
  if (is_symbolic(nest_.outer)) return print_rows();
  const Pass& pass = passes_.front();
  const std::int64_t points = extent_of(nest_.outer);
  const std::int64_t extent = extent_of(pass.inner);
  Tile tile;
  if (nest_.outer_reduction) {
    const std::int64_t beside =
        blocks_last() ? nest_.outer.back().extent : points;
    tile.height = std::min(choices().split_column_points, power_of_two(beside));
  }
  tile.width = std::max<std::int64_t>(16, variant_.tile / tile.height);
  const std::int64_t blocks = point_programs(tile.height).value;
  const std::int64_t programs =
      facts_.sms * (nest_.outer_reduction ? choices().split_programs_of_columns
                                          : choices().split_programs_of_rows);
  const std::int64_t wanted = power_of_two(ceil_div(programs, blocks));
  // Of what is symbolic there are as many as at the usual size, and what each
  // has is computed; the last of a few steps may have nothing.
  const std::int64_t steps = ceil_div(size_hint(plan_, pass.inner), tile.width);
  const std::int64_t most = std::min(wanted, steps);
  const bool is_open = is_symbolic(pass.inner);
  const Count share =
      product(parts_of(extent, most * tile.width, is_open, "//"), tile.width);
  const std::int64_t shares = is_open ? most : ceil_div(extent, share.value);
  if (shares == 1) return print_rows();
  tile_reason_ = {
      text(tile.height) + "x" + text(tile.width),
      text(points) + " points are too few for " + text(facts_.sms) +
          " multiprocessors, so " + text(shares) +
          " programs share each reduction and a second kernel reduces what "
          "they leave"};
  print_shares(pass, tile, share, shares);
  print_merge(pass, shares);
}

void NestText::print_shares(const Pass& pass, Tile tile, const Count& share,
                            std::int64_t shares) {
  const std::int64_t points = extent_of(nest_.outer);
  TritonKernel kernel(program(), module_);
  choose_width(kernel, true);
  kernel.line("share = " + kernel.program_id() + " % " + text(shares));
  const std::string address = open_points(
      kernel, "(" + kernel.program_id() + " // " + text(shares) + ")",
      tile.height);
  std::vector<TritonReduction> reductions;
  for (const Stage* stage : pass.stages)
    reductions.emplace_back(program(), *stage);
  kernel.expect_inner(pass.inner);
  for (const Stage* stage : pass.stages) {
    kernel.compute(roots_of(*stage), true);
  }
  for (const TritonReduction& reduction : reductions)
    reduction.begin(kernel, tile.shape());
  kernel.line("for start in range(0, " + share.text + ", " + text(tile.width) +
              "):");
  kernel.indent();
  open_inner(kernel, pass.inner, "share * " + share.text + " + start",
             tile.width,
             share.is_symbolic || extent_of(pass.inner) % share.value != 0);
  print_tile(kernel, pass, reductions, tile, false);
  kernel.dedent();
  kernel.forget_inner();
  const std::string mask = kernel.mask_of(nest_.outer);
  for (const TritonReduction& reduction : reductions) {
    reduction.reduce(kernel, reduction.names());
    for (std::size_t i = 0; i < reduction.names().size(); ++i) {
      const DType dtype = i == 0 ? reduction.accumulator_dtype() : DType::i32;
      module_.scratch.push_back({part(reduction, i), shares * points, dtype});
      kernel.use(part(reduction, i));
      kernel.line("tl.store(" + part(reduction, i) + " + (share * " +
                  text(points) + " + " + address + "), " +
                  reduction.names()[i] +
                  (mask.empty() ? ")" : ", mask=" + mask + ")"));
    }
  }
  kernel.finish(product(point_programs(tile.height), shares),
                warps_for(tile.height * tile.width, variant_.per_thread));
}

void NestText::print_merge(const Pass& pass, std::int64_t shares) {
  const std::int64_t points = extent_of(nest_.outer);
  const std::int64_t all = blocks_last() ? nest_.outer.back().extent : points;
  const std::int64_t width = power_of_two(shares);
  const std::int64_t height = std::min(
      std::max<std::int64_t>(1, variant_.tile / width), power_of_two(all));
  TritonKernel kernel(program(), module_);
  const std::string address = open_points(kernel, kernel.program_id(), height);
  kernel.line("r = tl.arange(0, " + text(width) + ")[None, :]");
  std::string mask = width != shares ? "(r < " + text(shares) + ")" : "";
  const std::string of_points = kernel.mask_of(nest_.outer);
  if (!of_points.empty()) mask += (mask.empty() ? "" : " & ") + of_points;
  for (const Stage* stage : pass.stages) {
    const TritonReduction reduction(program(), *stage);
    std::vector<std::string> tile;
    for (std::size_t i = 0; i < reduction.names().size(); ++i) {
      const std::string name = part(reduction, i);
      kernel.use(name);
      tile.push_back("t" + reduction.names()[i].substr(1));
      const std::string otherwise =
          mask.empty()
              ? ")"
              : ", mask=" + mask + ", other=" + reduction.neutral(i) + ")";
      kernel.line(tile.back() + " = tl.load(" + name + " + (r * " +
                  text(points) + " + " + address + ")" + otherwise);
    }
    reduction.reduce(kernel, tile);
    reduction.conclude(kernel);
    spill(kernel, *stage, reduction);
  }
  kernel.finish(point_programs(height),
                warps_for(height * width, variant_.per_thread));
}

}  // namespace weft
