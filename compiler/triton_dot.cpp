#include "compiler/triton_dot.hpp"

#include <algorithm>

#include "compiler/triton_nest.hpp"

namespace weft {
namespace {

// The matrix units' smallest tiles; thinner products are folds like others.
constexpr std::int64_t rows_min = 16;
constexpr std::int64_t columns_min = 8;
constexpr std::int64_t folded_min = 8;
constexpr std::int64_t tile_min = 16;

// Tiles whose rows are walked together, so that their columns stay in cache.
constexpr std::int64_t group = 8;

std::string text(std::int64_t number) { return std::to_string(number); }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Slowest first, by where the results lie.
void sort_by(const Index& place, std::vector<LoopVar>& variables) {
  std::ranges::stable_sort(variables, [&](const LoopVar& a, const LoopVar& b) {
    return std::abs(place.coefficient(a.id)) >
           std::abs(place.coefficient(b.id));
  });
}

/// Prints the kernels of one product.
class DotText {
 public:
  DotText(const Schedule& plan, const Nest& nest, Contraction contraction,
          const TritonVariant& variant, const GpuFacts& facts,
          TritonModule& module)
      : plan_(plan),
        nest_(nest),
        it_(std::move(contraction)),
        variant_(variant),
        module_(module) {
    sort_outer();
    rows_ = extent_of(it_.rows);
    columns_ = extent_of(it_.columns);
    folded_ = extent_of(it_.folded);
    const auto clip = [](std::int64_t tile, std::int64_t extent) {
      return std::clamp(power_of_two(extent), tile_min, tile);
    };
    tile_rows_ = clip(variant.dot_rows, rows_);
    tile_columns_ = clip(variant.dot_columns, columns_);
    tile_folded_ = clip(variant.dot_folded, folded_);
    tiles_ = ceil_div(rows_, tile_rows_) * ceil_div(columns_, tile_columns_);
    choose_shares(facts);
  }

  void print() {
    print_product();
    if (shares_ > 1) print_merge();
  }

 private:
  const Stage& sum() const { return nest_.stages.front(); }

  // Rows and columns in the order of what is written with them.
  void sort_outer() {
    Index place = sum().result_index.empty() ? Index() : sum().result_index[0];
    for (const Stage& stage : nest_.stages) {
      if (stage.output >= 0) place = stage.offset;
    }
    sort_by(place, it_.rows);
    sort_by(place, it_.columns);
    sort_by(place, it_.batch);
  }

  // With too few tiles to go round, programs share the sums.
  void choose_shares(const GpuFacts& facts) {
    const std::int64_t programs = tiles_ * extent_of(it_.batch);
    const std::int64_t steps = ceil_div(folded_, tile_folded_);
    if (programs >= facts.sms || steps < 16) return;
    const std::int64_t wanted = std::min(2 * facts.sms / programs, steps / 8);
    if (wanted < 2) return;
    share_ = ceil_div(steps, wanted) * tile_folded_;
    shares_ = ceil_div(folded_, share_);
  }

  std::string part() const { return "part" + text(sum().results[0]); }

  // Which tile, batch and share the program has.
  void open_program(TritonKernel& kernel) const {
    const std::int64_t down = ceil_div(rows_, tile_rows_);
    const std::int64_t across = ceil_div(columns_, tile_columns_);
    kernel.line("tile = tl.program_id(0)");
    if (shares_ > 1) {
      kernel.line("share = tile % " + text(shares_));
      kernel.line("tile = tile // " + text(shares_));
    }
    if (!it_.batch.empty()) {
      const std::string wide = kernel.wide() ? ".to(tl.int64)" : "";
      kernel.line("batch = (tile // " + text(tiles_) + ")" + wide);
      kernel.line("tile = tile % " + text(tiles_));
      kernel.name_variables(it_.batch, "batch", Axis::none, "");
    }
    if (down > 1 && across > 1) {
      const std::string many = text(group * across);
      kernel.line("first = tile // " + many + " * " + text(group));
      kernel.line("high = tl.minimum(" + text(down) + " - first, " +
                  text(group) + ")");
      kernel.line("row = first + tile % " + many + " % high");
      kernel.line("column = tile % " + many + " // high");
    } else {
      kernel.line(down > 1 ? "row, column = tile, 0" : "row, column = 0, tile");
    }
  }

  void open_tile(TritonKernel& kernel) const {
    const auto open = [&](const char* name, const char* block,
                          const std::vector<LoopVar>& variables,
                          std::int64_t tile, Axis axis) {
      const std::int64_t extent = extent_of(variables);
      const std::string wide = kernel.wide() ? ".to(tl.int64)" : "";
      const char* spread = axis == Axis::rows ? "[:, None]" : "[None, :]";
      kernel.line(std::string(name) + " = (" + block + " * " + text(tile) +
                  " + tl.arange(0, " + text(tile) + ")" + spread + ")" + wide);
      std::string mask;
      if (extent % tile != 0) {
        mask = std::string(name) + "m";
        kernel.line(mask + " = " + name + " < " + text(extent));
      }
      kernel.name_variables(variables, name, axis, mask);
    };
    open("m", "row", it_.rows, tile_rows_, Axis::rows);
    open("n", "column", it_.columns, tile_columns_, Axis::columns);
  }

  // One factor's tile at this step of the fold.
  void print_factor(TritonKernel& kernel, ExprId factor, const char* name,
                    Axis folded, const std::string& shape) const {
    const char* spread = folded == Axis::rows ? "[:, None]" : "[None, :]";
    const std::string k = std::string("k") + name;
    const std::string first =
        shares_ > 1 ? "share * " + text(share_) + " + k" : "k";
    kernel.line(k + " = " + first + " + tl.arange(0, " + text(tile_folded_) +
                ")" + spread);
    std::string mask;
    if (folded_ % (shares_ > 1 ? share_ : tile_folded_) != 0) {
      mask = k + "m";
      kernel.line(mask + " = " + k + " < " + text(folded_));
    }
    kernel.expect_inner(it_.folded);
    kernel.name_variables(it_.folded, k, folded, mask);
    kernel.compute({factor}, false);
    std::string value = kernel.operand(factor);
    const bool plain = plan_.program.arena[factor].op == ScalarOp::load;
    if (!plain && !mask.empty()) {
      value = "tl.where(" + mask + ", " + value + ", 0.0)";
    }
    kernel.line(std::string(name) + " = tl.broadcast_to(" + value + ", " +
                shape + ")");
    kernel.forget_inner();
  }

  void print_product() {
    TritonKernel kernel(plan_.program, module_);
    kernel.set_wide(needs_wide(plan_.program, nest_));
    const std::string shape =
        "(" + text(tile_rows_) + ", " + text(tile_columns_) + ")";
    open_program(kernel);
    open_tile(kernel);
    kernel.expect_inner(it_.folded);
    kernel.compute({it_.a, it_.b}, true);
    kernel.line("sums = tl.zeros(" + shape + ", tl.float32)");
    kernel.line("for k in range(0, " + text(shares_ > 1 ? share_ : folded_) +
                ", " + text(tile_folded_) + "):");
    kernel.indent();
    print_factor(kernel, it_.a, "a", Axis::columns,
                 "(" + text(tile_rows_) + ", " + text(tile_folded_) + ")");
    print_factor(kernel, it_.b, "b", Axis::rows,
                 "(" + text(tile_folded_) + ", " + text(tile_columns_) + ")");
    kernel.line("sums = tl.dot(a, b, sums, input_precision=\"" + precision() +
                "\")");
    kernel.dedent();
    if (shares_ > 1) {
      module_.scratch.push_back(
          {part(), shares_ * extent_of(it_.batch) * rows_ * columns_});
      kernel.use(part());
      std::string mask = kernel.mask_of(it_.rows);
      const std::string other = kernel.mask_of(it_.columns);
      if (!mask.empty() && !other.empty()) mask += " & ";
      mask += other;
      const std::string block =
          it_.batch.empty()
              ? "share"
              : "(share * " + text(extent_of(it_.batch)) + " + batch)";
      kernel.line("tl.store(" + part() + " + (" + block + " * " +
                  text(rows_ * columns_) + " + m * " + text(columns_) +
                  " + n), sums" +
                  (mask.empty() ? ")" : ", mask=" + mask + ")"));
    } else {
      print_epilogue(kernel, shape);
    }
    kernel.finish(tiles_ * extent_of(it_.batch) * shares_, variant_.dot_warps,
                  variant_.dot_stages);
  }

  // The framework lets convolutions use the matrix units' 19 bits, products
  // not: those are made of three, which keep float32's.
  std::string precision() const {
    return sum().note.find("convolution") != std::string::npos ? "tf32"
                                                               : "tf32x3";
  }

  void print_epilogue(TritonKernel& kernel, const std::string& shape) const {
    const int result = sum().results[0];
    kernel.set_result(result, "sums", false);
    if (plan_.spilled.contains(result)) {
      kernel.store(result, sum().result_index[0], "sums");
    }
    for (std::size_t i = 1; i < nest_.stages.size(); ++i) {
      const Stage& stage = nest_.stages[i];
      kernel.compute({stage.value}, false);
      kernel.store(stage.output, stage.offset,
                   "tl.broadcast_to(" + kernel.operand(stage.value) + ", " +
                       shape + ")");
    }
  }

  // Adds up what the shares left, element by element.
  void print_merge() {
    const std::int64_t elements = extent_of(it_.batch) * rows_ * columns_;
    const std::int64_t block = std::min(variant_.tile, power_of_two(elements));
    TritonKernel kernel(plan_.program, module_);
    kernel.set_wide(needs_wide(plan_.program, nest_));
    kernel.line("r = " + kernel.program_id() + " * " + text(block) +
                " + tl.arange(0, " + text(block) + ")[None, :]");
    const bool ragged = elements % block != 0;
    if (ragged) kernel.line("rm = r < " + text(elements));
    std::vector<LoopVar> all = it_.batch;
    all.insert(all.end(), it_.rows.begin(), it_.rows.end());
    all.insert(all.end(), it_.columns.begin(), it_.columns.end());
    kernel.name_variables(all, "r", Axis::columns, ragged ? "rm" : "");
    const std::string shape = "(1, " + text(block) + ")";
    kernel.line("sums = tl.zeros(" + shape + ", tl.float32)");
    kernel.line("for share in range(0, " + text(shares_) + "):");
    kernel.indent();
    kernel.use(part());
    kernel.line("sums += tl.load(" + part() + " + (share * " + text(elements) +
                " + r)" + (ragged ? ", mask=rm, other=0.0)" : ")"));
    kernel.dedent();
    print_epilogue(kernel, shape);
    kernel.finish(ceil_div(elements, block),
                  warps_for(block, variant_.per_thread));
  }

  const Schedule& plan_;
  const Nest& nest_;
  Contraction it_;
  const TritonVariant& variant_;
  TritonModule& module_;
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t folded_ = 1;
  std::int64_t tile_rows_ = 16;
  std::int64_t tile_columns_ = 16;
  std::int64_t tile_folded_ = 16;
  std::int64_t tiles_ = 1;
  std::int64_t share_ = 0;   ///< of the folded elements, a program's
  std::int64_t shares_ = 1;  ///< programs for one tile
};

}  // namespace

std::optional<Contraction> contraction_of(const Program& program,
                                          const Stage& stage,
                                          const std::vector<LoopVar>& outer) {
  const Scalar& product = program.arena[stage.value];
  if (!stage.folds || stage.fold != Fold::sum || stage.inner.empty() ||
      product.op != ScalarOp::call || product.function != "mul" ||
      product.dtype != DType::f32) {
    return std::nullopt;
  }
  Contraction found;
  found.a = product.arguments[0];
  found.b = product.arguments[1];
  found.folded = stage.inner;
  const std::set<int> of_a = all_variables(program.arena, found.a);
  const std::set<int> of_b = all_variables(program.arena, found.b);
  for (const LoopVar& v : outer) {
    const bool a = of_a.contains(v.id);
    const bool b = of_b.contains(v.id);
    (a == b ? found.batch : a ? found.rows : found.columns).push_back(v);
  }
  if (extent_of(found.rows) < extent_of(found.columns)) {
    std::swap(found.a, found.b);
    std::swap(found.rows, found.columns);
  }
  if (extent_of(found.rows) < rows_min ||
      extent_of(found.columns) < columns_min ||
      extent_of(found.folded) < folded_min) {
    return std::nullopt;
  }
  return found;
}

bool is_contraction(const Program& program, const Stage& stage) {
  return contraction_of(program, stage, stage.outer).has_value();
}

void print_triton_dot(const Schedule& plan, const Nest& nest,
                      const Contraction& contraction,
                      const TritonVariant& variant, const GpuFacts& facts,
                      TritonModule& module) {
  DotText(plan, nest, contraction, variant, facts, module).print();
}

}  // namespace weft
