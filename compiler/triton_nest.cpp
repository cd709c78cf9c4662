#include "compiler/triton_nest.hpp"

#include <algorithm>

#include "compiler/triton_dot.hpp"
#include "compiler/triton_fold.hpp"

namespace weft {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::string shape_text(std::int64_t points, std::int64_t inner) {
  return "(" + text(points) + ", " + text(inner) + ")";
}

std::vector<ExprId> roots_of(const Stage& stage) {
  std::vector<ExprId> roots = {stage.value};
  if (stage.position >= 0) roots.push_back(stage.position);
  return roots;
}

/// Prints the kernels of one nest.
class NestText {
 public:
  NestText(const Schedule& plan, const Nest& nest, const TritonVariant& variant,
           const GpuFacts& facts, TritonModule& module)
      : plan_(plan),
        nest_(nest),
        variant_(variant),
        facts_(facts),
        module_(module),
        passes_(passes_of(plan.program, nest)) {}

  void print() {
    if (nest_.alone) {
      const auto contraction =
          contraction_of(program(), nest_.stages.front(), nest_.outer);
      return print_triton_dot(plan_, nest_, contraction.value(), variant_,
                              facts_, module_);
    }
    if (nest_.split) return print_split();
    const bool folds =
        std::any_of(passes_.begin(), passes_.end(),
                    [](const Pass& p) { return !p.inner.empty(); });
    folds ? print_rows() : print_elements();
  }

 private:
  const Program& program() const { return plan_.program; }

  std::int64_t longest() const {
    std::int64_t most = 1;
    for (const Pass& pass : passes_) {
      most = std::max(most, extent_of(pass.inner));
    }
    return most;
  }

  void open_points(TritonKernel& kernel, const std::vector<LoopVar>& variables,
                   const std::string& program_id, std::int64_t block) const {
    const std::int64_t points = extent_of(variables);
    kernel.line("p = " + program_id + " * " + text(block) + " + tl.arange(0, " +
                text(block) + ")[:, None]");
    const bool ragged = points % block != 0;
    if (ragged) kernel.line("pm = p < " + text(points));
    kernel.name_variables(variables, "p", Axis::rows, ragged ? "pm" : "");
  }

  /// Names inner variables at `first` + 0, 1, … block - 1; `ragged`: these may
  /// lie behind the last.
  static void open_inner(TritonKernel& kernel,
                         const std::vector<LoopVar>& variables,
                         const std::string& first, std::int64_t block,
                         bool ragged) {
    std::string lanes = "tl.arange(0, " + text(block) + ")[None, :]";
    if (kernel.wide()) lanes += ".to(tl.int64)";
    kernel.line("r = " + (first.empty() ? "" : first + " + ") + lanes);
    if (ragged) kernel.line("rm = r < " + text(extent_of(variables)));
    kernel.expect_inner(variables);
    kernel.name_variables(variables, "r", Axis::columns, ragged ? "rm" : "");
  }

  void store_stage(TritonKernel& kernel, const Stage& stage,
                   const std::string& shape) const {
    std::string value = kernel.operand(stage.value);
    const Scalar& node = program().arena[stage.value];
    if (node.op == ScalarOp::constant && node.dtype == DType::f32) {
      value = "tl.full((1, 1), " + value + ", tl.float32)";
    }
    kernel.store(stage.output, stage.offset,
                 "tl.broadcast_to(" + value + ", " + shape + ")");
  }

  void spill(TritonKernel& kernel, const Stage& stage,
             const TritonFold& fold) const {
    for (std::size_t i = 0; i < stage.results.size(); ++i) {
      const int buffer = stage.results[i];
      if (!plan_.spilled.contains(buffer)) continue;
      std::string value = fold.names()[i];
      if (i == 1) value += ".to(tl.int64)";
      if (fold.held() != program().arena[stage.value].dtype && i == 0) {
        value += " != 0";
      }
      kernel.store(buffer, stage.result_index[0], value);
    }
  }

  /// No fold: one element after the other, in rows where the last dimension is
  /// long, so that what depends on the row is computed once for it.
  void print_elements() {
    TritonKernel kernel(program(), module_);
    kernel.set_wide(needs_wide(program(), nest_));
    std::vector<LoopVar> rows = nest_.outer;
    std::vector<LoopVar> columns;
    std::int64_t block = std::min(variant_.tile, power_of_two(nest_.work));
    if (rows.size() > 1 && fills_rows(rows.back().extent)) {
      columns = {rows.back()};
      rows.pop_back();
      block = std::min(block, row_block(columns[0].extent));
    } else {
      std::swap(rows, columns);
    }
    const std::int64_t height =
        std::min(std::max<std::int64_t>(1, variant_.tile / block),
                 power_of_two(extent_of(rows)));
    const std::int64_t width = ceil_div(extent_of(columns), block);
    const std::int64_t programs = ceil_div(extent_of(rows), height) * width;
    const bool flat = rows.empty();
    const std::string id = kernel.program_id();
    if (!flat) {
      open_points(kernel, rows, "(" + id + " // " + text(width) + ")", height);
    }
    const std::string first =
        "(" + (flat ? id : id + " % " + text(width)) + ") * " + text(block);
    open_inner(kernel, columns, first, block, extent_of(columns) % block != 0);
    for (const Pass& each : passes_) {
      for (const Stage* stage : each.stages) {
        kernel.compute(roots_of(*stage), false);
        store_stage(kernel, *stage, shape_text(height, block));
      }
    }
    kernel.finish(programs, warps_for(height * block, variant_.per_thread));
  }

  bool fills_rows(std::int64_t extent) const {
    if (extent < 64) return false;
    const std::int64_t block = row_block(extent);
    return 5 * extent >= 4 * ceil_div(extent, block) * block;
  }

  /// Of the blocks that waste least, the largest.
  std::int64_t row_block(std::int64_t extent) const {
    std::int64_t best = 64;
    for (std::int64_t block = 64;
         block <= std::min<std::int64_t>(variant_.tile, 2 * extent);
         block *= 2) {
      const std::int64_t waste = ceil_div(extent, block) * block;
      if (waste <= ceil_div(extent, best) * best) best = block;
    }
    return best;
  }

  /// Points with folds over their inner elements. A row that fits is held, so
  /// that each pass over it but the first reads registers.
  void print_rows() {
    TritonKernel kernel(program(), module_);
    kernel.set_wide(needs_wide(program(), nest_));
    const std::int64_t row = power_of_two(longest());
    const std::int64_t points = extent_of(nest_.outer);
    const bool held = row <= variant_.row_max;
    const std::int64_t tile = std::max(variant_.tile, held ? row : 0);
    std::int64_t block = held ? row : variant_.tile;
    if (nest_.columns && !held) block = std::min<std::int64_t>(32, row);
    const std::int64_t height =
        std::min(std::max<std::int64_t>(1, tile / block), power_of_two(points));
    open_points(kernel, nest_.outer, kernel.program_id(), height);
    const Pass* before = nullptr;
    for (const Pass& pass : passes_) {
      if (pass.inner.empty()) {
        print_points(kernel, pass, height);
        continue;
      }
      const bool again = before != nullptr && before->inner == pass.inner;
      if (held && !again) open_held(kernel, pass);
      if (pass.scan() != nullptr) {
        print_scan(kernel, pass, height, block, held);
      } else {
        print_pass(kernel, pass, height, block, held);
      }
      before = &pass;
    }
    kernel.finish(ceil_div(points, height),
                  warps_for(height * block, variant_.per_thread));
  }

  void open_held(TritonKernel& kernel, const Pass& pass) const {
    kernel.forget_inner();
    const std::int64_t extent = extent_of(pass.inner);
    const std::int64_t block = power_of_two(extent);
    open_inner(kernel, pass.inner, "", block, block != extent);
  }

  void print_pass(TritonKernel& kernel, const Pass& pass, std::int64_t height,
                  std::int64_t block, bool held) const {
    std::vector<TritonFold> folds;
    for (const Stage* stage : pass.folding()) {
      folds.emplace_back(program(), *stage);
    }
    const std::int64_t extent = extent_of(pass.inner);
    if (held) {
      print_tile(kernel, pass, folds, shape_text(height, power_of_two(extent)),
                 true);
    } else {
      print_walk(kernel, pass, folds, height, block);
    }
    std::size_t at = 0;
    for (const Stage* stage : pass.folding()) {
      folds[at].conclude(kernel);
      spill(kernel, *stage, folds[at++]);
    }
  }

  void print_points(TritonKernel& kernel, const Pass& pass,
                    std::int64_t height) const {
    for (const Stage* stage : pass.stages) {
      kernel.compute(roots_of(*stage), false);
      if (!stage->folds) {
        store_stage(kernel, *stage, shape_text(height, 1));
        continue;
      }
      // A fold of one element is that element.
      const TritonFold fold(program(), *stage);
      fold.reduce(kernel, fold.tile(kernel, shape_text(height, 1), ""));
      fold.conclude(kernel);
      spill(kernel, *stage, fold);
    }
  }

  /// Running values along a row; the pass's other stages take them as they
  /// come.
  void print_scan(TritonKernel& kernel, const Pass& pass, std::int64_t height,
                  std::int64_t block, bool held) const {
    const TritonFold fold(program(), *pass.scan());
    const std::int64_t extent = extent_of(pass.inner);
    if (held) {
      return print_scan_tile(kernel, pass, fold, "",
                             shape_text(height, power_of_two(extent)));
    }
    kernel.forget_inner();
    const std::string carry = "carry" + fold.names()[0].substr(1);
    kernel.line(carry + " = tl.full(" + shape_text(height, 1) + ", " +
                fold.neutral(0) + ", " + triton_type(fold.held()) + ")");
    kernel.line("for start in range(0, " + text(extent) + ", " + text(block) +
                "):");
    kernel.indent();
    open_inner(kernel, pass.inner, "start", block, extent % block != 0);
    print_scan_tile(kernel, pass, fold, carry, shape_text(height, block));
    kernel.dedent();
    kernel.forget_inner();
  }

  void print_scan_tile(TritonKernel& kernel, const Pass& pass,
                       const TritonFold& fold, const std::string& carry,
                       const std::string& shape) const {
    const Stage& scan = *pass.scan();
    kernel.compute(roots_of(scan), false);
    const auto tile = fold.tile(kernel, shape, kernel.mask_of(pass.inner));
    fold.scan(kernel, tile[0], carry);
    kernel.set_result(scan.results[0], fold.names()[0], true);
    spill(kernel, scan, fold);
    for (const Stage* stage : pass.stages) {
      if (stage == &scan) continue;
      kernel.compute(roots_of(*stage), false);
      store_stage(kernel, *stage, shape);
    }
  }

  void print_walk(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonFold>& folds, std::int64_t height,
                  std::int64_t block) const {
    const std::string shape = shape_text(height, block);
    const std::int64_t extent = extent_of(pass.inner);
    kernel.forget_inner();
    kernel.expect_inner(pass.inner);
    for (const Stage* stage : pass.stages) {
      kernel.compute(roots_of(*stage), true);
    }
    for (const TritonFold& fold : folds) fold.begin(kernel, shape);
    kernel.line("for start in range(0, " + text(extent) + ", " + text(block) +
                "):");
    kernel.indent();
    open_inner(kernel, pass.inner, "start", block, extent % block != 0);
    print_tile(kernel, pass, folds, shape, false);
    kernel.dedent();
    kernel.forget_inner();
    for (const TritonFold& fold : folds) fold.reduce(kernel, fold.names());
  }

  /// One tile of a pass: its folds take it (and are `done` with it), its other
  /// stages store it.
  void print_tile(TritonKernel& kernel, const Pass& pass,
                  const std::vector<TritonFold>& folds,
                  const std::string& shape, bool done) const {
    std::size_t at = 0;
    for (const Stage* stage : pass.stages) {
      kernel.compute(roots_of(*stage), false);
      if (!stage->folds) {
        store_stage(kernel, *stage, shape);
        continue;
      }
      const TritonFold& fold = folds[at++];
      const auto tile = fold.tile(kernel, shape, kernel.mask_of(pass.inner));
      done ? fold.reduce(kernel, tile) : fold.take(kernel, tile);
    }
  }

  /// Few points and much to fold: each program folds a share of one block of
  /// points, and a second kernel folds what they left.
  void print_split() {
    const Pass& pass = passes_.front();
    const std::int64_t points = extent_of(nest_.outer);
    const std::int64_t extent = extent_of(pass.inner);
    const std::int64_t height =
        nest_.columns ? std::min<std::int64_t>(64, power_of_two(points)) : 1;
    const std::int64_t block =
        std::max<std::int64_t>(16, variant_.tile / height);
    const std::int64_t blocks = ceil_div(points, height);
    const std::int64_t wanted = power_of_two(ceil_div(4 * facts_.sms, blocks));
    const std::int64_t steps = ceil_div(extent, block);
    const std::int64_t share = ceil_div(steps, std::min(wanted, steps)) * block;
    const std::int64_t shares = ceil_div(extent, share);
    print_shares(pass, height, block, share, shares);
    print_merge(pass, shares);
  }

  static std::string part(const TritonFold& fold, std::size_t i) {
    return "part" + fold.names()[i].substr(1);
  }

  void print_shares(const Pass& pass, std::int64_t height, std::int64_t block,
                    std::int64_t share, std::int64_t shares) {
    const std::int64_t points = extent_of(nest_.outer);
    const std::string shape = shape_text(height, block);
    TritonKernel kernel(program(), module_);
    kernel.set_wide(needs_wide(program(), nest_));
    kernel.line("share = " + kernel.program_id() + " % " + text(shares));
    open_points(kernel, nest_.outer,
                "(" + kernel.program_id() + " // " + text(shares) + ")",
                height);
    std::vector<TritonFold> folds;
    for (const Stage* stage : pass.stages)
      folds.emplace_back(program(), *stage);
    kernel.expect_inner(pass.inner);
    for (const Stage* stage : pass.stages) {
      kernel.compute(roots_of(*stage), true);
    }
    for (const TritonFold& fold : folds) fold.begin(kernel, shape);
    kernel.line("for start in range(0, " + text(share) + ", " + text(block) +
                "):");
    kernel.indent();
    open_inner(kernel, pass.inner, "share * " + text(share) + " + start", block,
               extent_of(pass.inner) % share != 0);
    print_tile(kernel, pass, folds, shape, false);
    kernel.dedent();
    kernel.forget_inner();
    for (const TritonFold& fold : folds) {
      fold.reduce(kernel, fold.names());
      for (std::size_t i = 0; i < fold.names().size(); ++i) {
        const std::string name = part(fold, i);
        module_.scratch.push_back(
            {name, shares * points, i == 0 ? fold.held() : DType::i32});
        kernel.use(name);
        const bool ragged = points % height != 0;
        kernel.line("tl.store(" + name + " + (share * " + text(points) +
                    " + p), " + fold.names()[i] +
                    (ragged ? ", mask=pm)" : ")"));
      }
    }
    kernel.finish(ceil_div(points, height) * shares,
                  warps_for(height * block, variant_.per_thread));
  }

  void print_merge(const Pass& pass, std::int64_t shares) {
    const std::int64_t points = extent_of(nest_.outer);
    const std::int64_t width = power_of_two(shares);
    const std::int64_t height = std::min(
        std::max<std::int64_t>(1, variant_.tile / width), power_of_two(points));
    TritonKernel kernel(program(), module_);
    open_points(kernel, nest_.outer, kernel.program_id(), height);
    kernel.line("r = tl.arange(0, " + text(width) + ")[None, :]");
    std::string mask = width != shares ? "(r < " + text(shares) + ")" : "";
    if (points % height != 0) mask += mask.empty() ? "pm" : " & pm";
    for (const Stage* stage : pass.stages) {
      const TritonFold fold(program(), *stage);
      std::vector<std::string> tile;
      for (std::size_t i = 0; i < fold.names().size(); ++i) {
        const std::string name = part(fold, i);
        kernel.use(name);
        tile.push_back("t" + fold.names()[i].substr(1));
        kernel.line(tile.back() + " = tl.load(" + name + " + (r * " +
                    text(points) + " + p)" +
                    (mask.empty() ? ")"
                                  : ", mask=" + mask +
                                        ", other=" + fold.neutral(i) + ")"));
      }
      fold.reduce(kernel, tile);
      fold.conclude(kernel);
      spill(kernel, *stage, fold);
    }
    kernel.finish(ceil_div(points, height),
                  warps_for(height * width, variant_.per_thread));
  }

  const Schedule& plan_;
  const Nest& nest_;
  const TritonVariant& variant_;
  const GpuFacts& facts_;
  TritonModule& module_;
  std::vector<Pass> passes_;
};

}  // namespace

bool needs_wide(const Program& program, const Nest& nest) {
  constexpr std::int64_t most = INT32_MAX;
  bool wide = extent_of(nest.outer) > most - (1 << 20);
  const auto check = [&](const Index& index) {
    const auto [low, high] = index.range();
    wide = wide || high > most - (1 << 20) || low < -most;
  };
  for (const Stage& stage : nest.stages) {
    wide = wide || extent_of(stage.inner) > most - (1 << 20);
    check(stage.offset);
    for (const Index& index : stage.result_index) check(index);
    for (const ExprId id : program.arena.reachable({stage.value})) {
      for (const Index& index : program.arena[id].index) check(index);
    }
  }
  return wide;
}

void print_triton_nest(const Schedule& plan, const Nest& nest,
                       const TritonVariant& variant, const GpuFacts& facts,
                       TritonModule& module) {
  NestText(plan, nest, variant, facts, module).print();
}

}  // namespace weft
