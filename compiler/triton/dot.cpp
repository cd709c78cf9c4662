#include "compiler/triton/dot.hpp"

#include <algorithm>

#include "compiler/loops/symbolic_loops.hpp"
#include "compiler/loops/width.hpp"
#include "compiler/triton/dot_text.hpp"
#include "compiler/triton/product_tile.hpp"
#include "compiler/triton/tiles.hpp"

namespace weft {
namespace {

// Slowest first, by where the results lie.
void sort_by(const Index& index, std::vector<LoopVar>& variables) {
  std::ranges::stable_sort(variables, [&](const LoopVar& a, const LoopVar& b) {
    return std::abs(index.coefficient(a.id)) >
           std::abs(index.coefficient(b.id));
  });
}

}  // namespace

DotText::DotText(const Schedule& plan, const Nest& nest,
                 Contraction contraction, const TritonVariant& variant,
                 const GpuFacts& facts, TritonModule& module)
    : plan_(plan),
      nest_(nest),
      it_(std::move(contraction)),
      variant_(variant),
      choices_(facts.choices.triton.product),
      module_(module) {
  choose_type(facts);
  sort_outer();
  choose_tile(facts);
  choose_interleave();
  pad_rows();
  rows_ = extent_of(it_.rows);
  columns_ = extent_of(it_.columns);
  k_ = extent_of(it_.reduced);
  const auto clip = [&](std::int64_t tile,
                        const std::vector<LoopVar>& variables) {
    return std::clamp(tile_hint(plan_, variables), kTileMin, tile);
  };
  block_m_ = clip(variant_.block_m, it_.rows);
  block_n_ = clip(variant_.block_n, it_.columns);
  // Of halves, as many bytes at a time.
  block_k_ = clip(gathers() ? variant_.gathered
                            : variant_.block_k * 4 / element_bytes(dtype_),
                  it_.reduced);
  row_tiles_ = tiles_of(plan_, it_.rows, block_m_);
  column_tiles_ = tiles_of(plan_, it_.columns, block_n_);
  tile_reason_.tile = text(block_m_) + "x" + text(block_n_) + ", " +
                      text(block_k_) + " of the sum at a time";
  choose_shares(facts);
  splits_factors_ = wants_split_factors();
  lays_out_ = wants_layout();
  choose_stages(facts);
}

void DotText::print() {
  if (splits_factors_) {
    print_split_factor(it_.a, "a", it_.rows, block_m_);
    print_split_factor(it_.b, "b", it_.columns, block_n_);
  }
  if (lays_out_) print_layout();
  print_product();
  if (split_k_ > 1) print_merge();
}

// Where both factors hold no more than 16 bits, the matrix units take these.
// The interpreter would multiply the integers that it keeps a bfloat16 in.
void DotText::choose_type(const GpuFacts& facts) {
  const Scalar& a = plan_.program.arena[it_.a];
  const Scalar& b = plan_.program.arena[it_.b];
  if (a.op != ScalarOp::cast || b.op != ScalarOp::cast) return;
  const DType dtype = plan_.program.arena[a.arguments[0]].dtype;
  if (!is_half(dtype) || (dtype == DType::bf16 && facts.interpreted) ||
      plan_.program.arena[b.arguments[0]].dtype != dtype) {
    return;
  }
  it_.a = a.arguments[0];
  it_.b = b.arguments[0];
  dtype_ = dtype;
}

// As many steps under way as the shared memory holds. What is gathered goes
// through registers: copies of single elements behind the program's back take
// longer than to wait for them.
void DotText::choose_stages(const GpuFacts& facts) {
  if (gathers()) {
    stages_ = 1;
    return;
  }
  const std::int64_t bytes =
      splits_factors_
          ? 2 * element_bytes(dtype_) * block_k_ * (block_m_ + block_n_)
          : step_bytes(it_.a, it_.rows, block_m_) +
                step_bytes(it_.b, it_.columns, block_n_);
  // More than one step under way copies all that a step reads.
  const std::int64_t most =
      facts.shared_bytes / std::max<std::int64_t>(1, bytes);
  stages_ =
      static_cast<int>(std::clamp<std::int64_t>(most, 1, variant_.dot_stages));
}

// What a factor reads at each step, of which a tile has so many points.
std::int64_t DotText::step_bytes(ExprId factor,
                                 const std::vector<LoopVar>& points,
                                 std::int64_t tile) const {
  const ScalarArena& arena = plan_.program.arena;
  std::int64_t bytes = 0;
  for (const ExprId id : arena.reachable({factor})) {
    if (arena[id].op != ScalarOp::load) continue;
    const std::set<int> used = all_variables(arena, id);
    const auto moves = [&](const std::vector<LoopVar>& along) {
      return std::ranges::any_of(along, [&](const LoopVar& variable) {
        return used.contains(variable.id);
      });
    };
    if (!moves(it_.reduced)) continue;  // it is read once, before the steps
    bytes +=
        element_bytes(arena[id].dtype) * block_k_ * (moves(points) ? tile : 1);
  }
  return bytes;
}

Index DotText::output_index() const {
  Index index = sum().result_index.empty() ? Index() : sum().result_index[0];
  for (const Stage& stage : nest_.stages) {
    if (stage.output >= 0) index = stage.offset;
  }
  return index;
}

// Rows and columns in the order of what is written with them.
void DotText::sort_outer() {
  const Index index = output_index();
  sort_by(index, it_.rows);
  sort_by(index, it_.columns);
  sort_by(index, it_.batch);
}

// Windows are gathered, which takes longer than the rest.
void DotText::choose_tile(const GpuFacts& facts) {
  const bool has_windows = convolves() && it_.reduced.size() > 1;
  if (!variant_.fits || precision() != "tf32x3" || has_windows) {
    tile_reason_.reason =
        variant_.fits ? "the variant's own: the cost model has no times for "
                        "windows, half precision or TF32"
                      : "the variant's own: timing compares the variants";
    return;
  }
  ProductSize size;
  size.batch = size_hint(plan_, it_.batch);
  size.rows = size_hint(plan_, it_.rows);
  size.columns = size_hint(plan_, it_.columns);
  size.k = size_hint(plan_, it_.reduced);
  size.is_along = lies_along(plan_.program.arena, it_.b, it_.reduced);
  size.may_split_k =
      !is_symbolic(plan_, it_.batch) && !is_symbolic(plan_, it_.rows) &&
      !is_symbolic(plan_, it_.columns) && !is_symbolic(plan_, it_.reduced);
  size.may_split_factors =
      !gathers() && split_is_profitable(size.rows, size.columns, size.k);
  const auto [tile, options] = choose_product_tile(size, facts);
  tile_reason_.reason = "it takes the least time by the cost model";
  tile_reason_.options = options;
  variant_.block_m = tile.rows;
  variant_.block_n = tile.columns;
  variant_.dot_warps = tile.warps;
  variant_.dot_stages = tile.stages;
  variant_.splits_factors = tile.splits_factors;
}

// With too few tiles to go round, programs share the sums. How many those are
// of what is symbolic is not known, nor how long these.
void DotText::choose_shares(const GpuFacts& facts) {
  const Count all = product(tiles(), tiles_of(plan_, it_.batch, 1));
  if (all.is_symbolic || is_symbolic(plan_, it_.reduced)) return;
  const std::int64_t steps = ceil_div(k_, block_k_);
  const std::int64_t wanted = split_k_programs(all.value, steps, facts);
  if (wanted < 2) return;
  k_per_program_ = ceil_div(steps, wanted) * block_k_;
  split_k_ = ceil_div(k_, k_per_program_);
  tile_reason_.reason += "; " + text(all.value) + " tiles are too few for " +
                         text(facts.sms) + " multiprocessors, so " +
                         text(split_k_) + " programs share the sums of each";
}

void DotText::choose_width(TritonKernel& kernel) const {
  kernel.set_wide(module_.for_sizes() || needs_wide(plan_.program, nest_));
}

std::string DotText::wide(const TritonKernel& kernel) {
  return kernel.wide() ? ".to(" + kernel.wide_type() + ")" : "";
}

// Which tile, batch and share the program has.
void DotText::open_program(TritonKernel& kernel) const {
  kernel.line("tile = " +
              (module_.for_sizes() ? kernel.program_id() : "tl.program_id(0)"));
  if (split_k_ > 1) {
    kernel.line("share = tile % " + text(split_k_));
    kernel.line("tile = tile // " + text(split_k_));
  }
  if (!it_.batch.empty()) {
    kernel.line("matrix = (tile // " + tiles().text + ")" + wide(kernel));
    kernel.line("tile = tile % " + tiles().text);
    kernel.name_variables(it_.batch, "matrix", Axis::none, "");
  }
  if (!row_tiles_.is_one && !column_tiles_.is_one) {
    const std::string many =
        product(choices_.tiles_together, column_tiles_).text;
    kernel.line("first = tile // " + many + " * " +
                text(choices_.tiles_together));
    kernel.line("high = tl.minimum(" + row_tiles_.text + " - first, " +
                text(choices_.tiles_together) + ")");
    kernel.line("row = first + tile % " + many + " % high");
    kernel.line("column = tile % " + many + " // high");
  } else {
    kernel.line(row_tiles_.is_one ? "row, column = 0, tile"
                                  : "row, column = tile, 0");
  }
}

// Where a position in tiles of that size is none of padding and in range.
std::string DotText::mask(TritonKernel& kernel, const std::string& name,
                          const std::string& padding, std::int64_t extent,
                          bool ragged) {
  std::string inside = padding;
  if (ragged) {
    inside +=
        (inside.empty() ? "(" : " & (") + name + " < " + text(extent) + ")";
  }
  if (inside.empty()) return "";
  kernel.line(name + "m = " + inside);
  return name + "m";
}

void DotText::open_tile(TritonKernel& kernel) const {
  const auto open = [&](const char* name, const char* block,
                        const std::vector<LoopVar>& variables,
                        std::int64_t tile, Axis axis) {
    const char* spread = axis == Axis::rows ? "[:, None]" : "[None, :]";
    kernel.line(std::string(name) + " = (" + block + " * " + text(tile) +
                " + tl.arange(0, " + text(tile) + ")" + spread + ")" +
                wide(kernel));
    const std::string padding =
        axis == Axis::columns ? phase_mask(name) : row_mask(name);
    kernel.name_variables(variables, name, axis,
                          mask(kernel, name, padding, extent_of(variables),
                               is_ragged(plan_, variables, tile)));
  };
  open("m", "row", it_.rows, block_m_, Axis::rows);
  open("n", "column", it_.columns, block_n_, Axis::columns);
}

// One factor's tile at this step of the reduction.
void DotText::print_factor(TritonKernel& kernel, ExprId factor,
                           const char* name, Axis reduced,
                           const std::string& shape) const {
  const char* spread = reduced == Axis::rows ? "[:, None]" : "[None, :]";
  const std::string k = std::string("k") + name;
  const std::string at =
      first() + " + tl.arange(0, " + text(block_k_) + ")" + spread;
  kernel.line(k + " = " + (kernel.wide() ? "(" + at + ")" + wide(kernel) : at));
  std::string mask;
  if (k_ % (split_k_ > 1 ? k_per_program_ : block_k_) != 0) {
    mask = k + "m";
    kernel.line(mask + " = " + k + " < " + text(k_));
  }
  kernel.expect_inner(it_.reduced);
  kernel.name_variables(it_.reduced, k, reduced, mask);
  kernel.compute({factor}, false);
  std::string value = kernel.operand(factor);
  const bool plain = plan_.program.arena[factor].op == ScalarOp::load;
  if (!plain && !mask.empty()) {
    value = "tl.where(" + mask + ", " + value + ", 0.0)";
  }
  kernel.line(std::string(name) + " = " +
              in_tf32(kernel, "tl.broadcast_to(" + value + ", " + shape + ")"));
  kernel.forget_inner();
}

// The matrix units cut a factor off, which pulls every product towards zero;
// PyTorch's library rounds before. Rounded here, too, the error is the
// library's own; cut off, it was 1.5 to 90 times that, and the kernel faster
// by up to 11 % or slower by half (an H200, 2026-11-26).
std::string DotText::in_tf32(TritonKernel& kernel,
                             const std::string& factor) const {
  if (precision() != "tf32") return factor;
  kernel.help("high_half");
  return "_high_half(" + factor + ")";
}

std::string DotText::first() const {
  return split_k_ > 1 ? "share * " + text(k_per_program_) + " + k" : "k";
}

void DotText::print_step(TritonKernel& kernel) const {
  print_factor(kernel, it_.a, "a", Axis::columns,
               "(" + text(block_m_) + ", " + text(block_k_) + ")");
  if (lays_out_) {
    print_laid_out(kernel);
  } else {
    print_factor(kernel, it_.b, "b", Axis::rows,
                 "(" + text(block_k_) + ", " + text(block_n_) + ")");
  }
  kernel.line("sums = tl.dot(a, b, sums, input_precision=\"" + precision() +
              "\")");
}

void DotText::print_product() {
  TritonKernel kernel(plan_.program, module_);
  choose_width(kernel);
  const std::string shape = "(" + text(block_m_) + ", " + text(block_n_) + ")";
  open_program(kernel);
  open_tile(kernel);
  if (splits_factors_) {
    open_split_factors(kernel);
  } else {
    kernel.expect_inner(it_.reduced);
    kernel.compute({it_.a}, true);
    if (!lays_out_) kernel.compute({it_.b}, true);
  }
  kernel.line("sums = tl.zeros(" + shape + ", tl.float32)");
  if (splits_factors_) {
    kernel.line("small = tl.zeros(" + shape + ", tl.float32)");
    // Zeros that no compiler knows to be: else it would join the sums again.
    kernel.line("nothing = tl.zeros(" + shape +
                ", tl.float32) + (tl.program_id(0) < 0).to(tl.float32)");
  }
  kernel.line("for k in range(0, " + text(split_k_ > 1 ? k_per_program_ : k_) +
              ", " + text(block_k_) + "):");
  kernel.indent();
  splits_factors_ ? print_split_step(kernel) : print_step(kernel);
  kernel.dedent();
  if (splits_factors_) {
    // Infinities times what rounding left are nothing that counts.
    kernel.line(
        "sums = tl.where(tl.abs(sums) < float(\"inf\"), sums + small, sums)");
  }
  if (it_.guard) print_without_left_out(kernel, shape);
  if (split_k_ > 1) {
    store_part(kernel);
  } else {
    print_epilogue(kernel, shape);
  }
  const Count programs = product(tiles(), tiles_of(plan_, it_.batch, 1));
  kernel.finish(product(programs, split_k_), variant_.dot_warps, stages_);
}

// The matrix units know no guard. That takes long, and infinities are rare.
void DotText::print_without_left_out(TritonKernel& kernel,
                                     const std::string& shape) const {
  const ExprId product = sum().value;
  const std::int64_t steps = split_k_ > 1 ? k_per_program_ : k_;
  const std::string mask = k_ % steps != 0 ? "onem" : "";
  const TritonKernel::Names names = kernel.names();
  kernel.line("if tl.max(tl.max((sums != sums).to(tl.int32), 1), 0) > 0:");
  kernel.indent();
  kernel.line("sums = tl.zeros(" + shape + ", tl.float32)");
  kernel.line("for k in range(0, " + text(steps) + "):");
  kernel.indent();
  kernel.line("one = " + first());
  if (!mask.empty()) kernel.line(mask + " = one < " + text(k_));
  kernel.expect_inner(it_.reduced);
  kernel.name_variables(it_.reduced, "one", Axis::none, mask);
  kernel.compute({product}, false);
  const std::string term = kernel.operand(product);
  kernel.line("sums += " +
              (mask.empty() ? term : "tl.where(onem, " + term + ", 0.0)"));
  kernel.forget_inner();
  kernel.set_names(names);
  kernel.dedent();
  kernel.dedent();
}

void DotText::store_part(TritonKernel& kernel) {
  const std::int64_t batches = extent_of(it_.batch);
  module_.scratch.push_back({part(), split_k_ * batches * rows_ * columns_});
  kernel.use(part());
  std::string mask = kernel.mask_of(it_.rows);
  const std::string other = kernel.mask_of(it_.columns);
  if (!mask.empty() && !other.empty()) mask += " & ";
  mask += other;
  const std::string block =
      it_.batch.empty() ? "share" : "(share * " + text(batches) + " + matrix)";
  kernel.line("tl.store(" + part() + " + (" + block + " * " +
              text(rows_ * columns_) + " + m * " + text(columns_) +
              " + n), sums" + (mask.empty() ? ")" : ", mask=" + mask + ")"));
}

// The matrix units' 19 bits are for what is TF32 in PyTorch, too: other
// products are made of three, which keep float32's. Halves go as they are.
std::string DotText::precision() const {
  if (is_half(dtype_)) return "ieee";
  return variant_.exact ? "tf32x3" : "tf32";
}

void DotText::print_epilogue(TritonKernel& kernel,
                             const std::string& shape) const {
  const int result = sum().results[0];
  const bool turns = phases_ > 0 && split_k_ == 1;
  std::vector<std::string> values = {"sums"};
  kernel.set_result(result, "sums", false);
  for (std::size_t i = 1; i < nest_.stages.size(); ++i) {
    const Stage& stage = nest_.stages[i];
    kernel.compute({stage.value}, false);
    const std::string value = kernel.operand(stage.value);
    // A reduction of one element is that element.
    if (stage.is_reduction) kernel.set_result(stage.results[0], value, false);
    values.push_back("tl.broadcast_to(" + value + ", " + shape + ")");
  }
  if (turns) {
    for (std::string& value : values) value = turned(value);
    open_turned(kernel);
  }
  if (plan_.spilled.contains(result)) {
    kernel.store(result, sum().result_index[0], values[0]);
  }
  for (std::size_t i = 1; i < nest_.stages.size(); ++i) {
    const Stage& stage = nest_.stages[i];
    if (stage.is_reduction) {
      if (plan_.spilled.contains(stage.results[0])) {
        kernel.store(stage.results[0], stage.result_index[0], values[i]);
      }
      continue;
    }
    std::string inside;
    for (const auto& [index, extent] : stage.bounds) {
      inside += (inside.empty() ? "(" : " & (") + kernel.index(index) + " < " +
                text(extent) + ")";
    }
    kernel.store(stage.output, stage.offset, values[i], inside);
  }
}

// Adds up what the shares left, element by element.
void DotText::print_merge() {
  const std::int64_t elements = extent_of(it_.batch) * rows_ * columns_;
  const std::int64_t block = std::min(variant_.tile, power_of_two(elements));
  TritonKernel kernel(plan_.program, module_);
  choose_width(kernel);
  kernel.line("r = " + kernel.program_id() + " * " + text(block) +
              " + tl.arange(0, " + text(block) + ")[None, :]");
  std::string padding = phase_mask("r");
  const std::string of_rows = row_mask("(r // " + text(columns_) + ")");
  if (!padding.empty() && !of_rows.empty()) padding += " & ";
  const std::string inside =
      mask(kernel, "r", padding + of_rows, elements, elements % block != 0);
  std::vector<LoopVar> all = it_.batch;
  all.insert(all.end(), it_.rows.begin(), it_.rows.end());
  all.insert(all.end(), it_.columns.begin(), it_.columns.end());
  kernel.name_variables(all, "r", Axis::columns, inside);
  const std::string shape = "(1, " + text(block) + ")";
  kernel.line("sums = tl.zeros(" + shape + ", tl.float32)");
  kernel.line("for share in range(0, " + text(split_k_) + "):");
  kernel.indent();
  kernel.use(part());
  kernel.line("sums += tl.load(" + part() + " + (share * " + text(elements) +
              " + r)" +
              (inside.empty() ? ")" : ", mask=" + inside + ", other=0.0)"));
  kernel.dedent();
  print_epilogue(kernel, shape);
  kernel.finish(ceil_div(elements, block),
                warps_for(block, variant_.per_thread));
}

TileReason print_triton_dot(const Schedule& plan, const Nest& nest,
                            const Contraction& contraction,
                            const TritonVariant& variant, const GpuFacts& facts,
                            TritonModule& module) {
  DotText printer(plan, nest, contraction, variant, facts, module);
  printer.print();
  return printer.tile_reason();
}

}  // namespace weft
