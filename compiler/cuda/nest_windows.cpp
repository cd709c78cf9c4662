// Prints nests of windows that are kept in registers (windows.hpp).
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

/// A loop that is written out by CUDA's compiler: with constants for `counter`,
/// arrays of a thread are registers.
void open_unrolled(Writer& out, const std::string& counter, std::int64_t extent,
                   const std::string& type = "int") {
  out.line("#pragma unroll");
  out.open("for (" + type + " " + counter + " = 0; " + counter + " < " +
           text(extent) + "; ++" + counter + ")");
}

class WindowsText {
 public:
  WindowsText(const Program& program, const Nest& nest,
              const std::vector<Pass>& passes, const CudaWindows& windows,
              CudaKernel& kernel)
      : program_(program),
        nest_(nest),
        reduction_(passes.front()),
        points_(passes.back()),
        it_(windows),
        kernel_(kernel),
        out_(kernel.out()) {
    for (const Stage* stage : reduction_.stages)
      reductions_.emplace_back(program, *stage);
  }

  std::int64_t print() {
    const std::int64_t points = open();
    for (const CudaReduction& reduction : reductions_) {
      reduction.need(kernel_);
      declare(reduction, reduction.accumulators(), it_.below.together);
    }
    print_walk();
    print_points();
    return points;
  }

 private:
  // Which windows are the thread's: the first of them in each direction.
  std::int64_t open() {
    std::int64_t points = 1;
    const auto each = [&](LoopVar v) -> std::int64_t {
      return v == it_.lane          ? kCudaWindowVectorWidth
             : v == it_.below.outer ? it_.below.together
                                    : 1;
    };
    for (const LoopVar& v : nest_.outer) points *= ceil_div(v.extent, each(v));
    const std::string constant = "const " + kernel_.index_type() + " ";
    // Unsigned, so that CUDA's compiler sees which guards always hold.
    const std::string counts = "const unsigned " + kernel_.index_type() + " ";
    out_.line(counts + "point = blockIdx.x * " + text(kBlockThreads) +
              (kernel_.index_type() == "int" ? "u" : "ull") +
              " + threadIdx.x;");
    // All threads take part: write_row() stores for other threads.
    out_.line("const bool inside = point < " + text(points) + ";");
    out_.line(counts + "p = inside ? point : 0;");
    std::int64_t stride = 1;
    for (std::size_t i = nest_.outer.size(); i-- > 0;) {
      const LoopVar v = nest_.outer[i];
      const std::int64_t count = ceil_div(v.extent, each(v));
      std::string at = "p";
      if (stride > 1) at += " / " + text(stride);
      if (i > 0) at += " % " + text(count);
      if (each(v) > 1) at += " * " + text(each(v));
      const std::string called = is_below(v) ? first_below() : name_of(v);
      out_.line(constant + called + " = " + at + ";");
      kernel_.set_variable(v, called);
      stride *= count;
    }
    return points;
  }

  bool is_below(LoopVar v) const {
    return it_.below.together > 1 && v == it_.below.outer;
  }
  std::string first_below() const { return "first" + text(it_.below.outer.id); }

  void declare(const CudaReduction& reduction, const std::string& what,
               std::int64_t rows) {
    out_.line(reduction.value_type() + " " + what + "[" + text(rows) + "][4];");
    open_unrolled(out_, "j", rows);
    open_unrolled(out_, "l", kCudaWindowVectorWidth);
    out_.line(what + "[j][l] = " + reduction.reducer() + "::none();");
    out_.close();
    out_.close();
  }

  // Over what the windows of a thread cover, a row at a time.
  void print_walk() {
    std::vector<LoopVar> others;
    for (const LoopVar& v : reduction_.inner) {
      if (v != it_.tap && (it_.below.together == 1 || v != it_.below.inner)) {
        others.push_back(v);
      }
    }
    if (!others.empty()) {
      open_unrolled(out_, "i", extent_of(others));
      kernel_.declare(others, "i");
    }
    if (it_.below.together > 1) {
      out_.line("// Row `row` of those that " + text(it_.below.together) +
                " rows of windows cover.");
      open_unrolled(out_, "row", it_.below.covered(), kernel_.index_type());
      kernel_.set_variable(it_.below.inner, "row");
    }
    read_rows();
    if (it_.below.together == 1) {
      fold_row("[0]", false);
    } else {
      it_.alike ? fold_once() : fold_each();
      out_.close();
    }
    if (!others.empty()) out_.close();
  }

  void read_rows() {
    for (const WindowRow& row : it_.rows) {
      const Scalar& load = program_.arena[row.load];
      const Buffer& buffer = program_.buffers[load.buffer];
      kernel_.use(load.buffer);
      const std::string called = "q" + text(row.load);
      const Index first =
          load.index[0].substitute({{it_.tap.id, Index(0)}}) - row.shift;
      out_.line(cuda_type(load.dtype) + " " + called + "[" +
                text(row.elements) + "];");
      out_.line("read_row(" + called + ", " + buffer.name + ", " +
                kernel_.index(first) + ", " + text(cuda_span(buffer)) + ");");
      std::string at = row.step == 1 ? "l" : "l * " + text(row.step);
      if (row.spread == 1) at += " + k";
      if (row.spread > 1) at += " + k * " + text(row.spread);
      if (row.shift > 0) at += " + " + text(row.shift);
      kernel_.set_at_hand(row.load, called + "[" + at + "]");
    }
  }

  // The row's part of a window is the same for all that it is in.
  void fold_once() {
    for (const CudaReduction& reduction : reductions_)
      declare(reduction, transposed(reduction), 1);
    fold_row("[0]", true);
    open_below();
    open_unrolled(out_, "l", kCudaWindowVectorWidth);
    for (const CudaReduction& reduction : reductions_) {
      add(reduction, reduction.accumulators() + "[j][l]",
          transposed(reduction) + "[0][l]");
    }
    out_.close();
    out_.close();
  }

  static std::string transposed(const CudaReduction& reduction) {
    return "across" + reduction.accumulators().substr(1);
  }

  void fold_each() {
    open_below();
    out_.line("const " + kernel_.index_type() + " " + name_of(it_.below.outer) +
              " = " + first_below() + " + j;");
    kernel_.set_variable(it_.below.outer, name_of(it_.below.outer));
    kernel_.set_variable(it_.below.inner, name_of(it_.below.inner));
    fold_row("[j]", false);
    out_.close();
    kernel_.set_variable(it_.below.outer, first_below());
  }

  // Over the windows that cover the row.
  void open_below() {
    open_unrolled(out_, "j", it_.below.together);
    out_.line("const int " + name_of(it_.below.inner) + " = (int)row - j * " +
              text(it_.below.step) + ";");
    out_.line("if (" + name_of(it_.below.inner) + " < 0 || " +
              name_of(it_.below.inner) + " >= " + text(it_.below.inner.extent) +
              ") continue;");
  }

  void fold_row(const std::string& j, bool is_transposed) {
    const auto names = kernel_.names();
    const std::vector<ExprId> roots = cuda_roots(reduction_);
    if (it_.tap.id >= 0) {
      open_unrolled(out_, "k", it_.tap.extent);
      kernel_.set_variable(it_.tap, "k");
    }
    kernel_.compute(roots, false);
    kernel_.open_lanes();
    kernel_.compute_lanes(roots);
    for (const CudaReduction& reduction : reductions_) {
      add(reduction,
          (is_transposed ? transposed(reduction) : reduction.accumulators()) +
              j + "[l]",
          reduction.step_value(kernel_));
    }
    kernel_.close_lanes();
    if (it_.tap.id >= 0) out_.close();
    kernel_.set_names(names);
  }

  void add(const CudaReduction& reduction, const std::string& into,
           const std::string& value) {
    out_.line(into + " = " + reduction.reducer() + "::of(" + into + ", " +
              value + ");");
  }

  void print_points() {
    for (const Stage* stage : points_.stages) {
      if (!is_vector_access(*stage)) print_row_starts(*stage);
    }
    open_unrolled(out_, "j", it_.below.together);
    if (it_.below.together > 1) {
      out_.line("const " + kernel_.index_type() + " " +
                name_of(it_.below.outer) + " = " + first_below() + " + j;");
      kernel_.set_variable(it_.below.outer, name_of(it_.below.outer));
    }
    for (const CudaReduction& reduction : reductions_) {
      reduction.conclude(kernel_, reduction.accumulators() + "[j][l]", true);
    }
    const std::vector<ExprId> roots = cuda_roots(points_);
    kernel_.compute(roots, false);
    for (const Stage* stage : points_.stages) {
      kernel_.use(stage->output);
      const Buffer& buffer = program_.buffers[stage->output];
      out_.line("Vector<" + cuda_type(buffer.dtype) + ", 4> " + vector(*stage) +
                ";");
    }
    kernel_.open_lanes();
    kernel_.compute_lanes(roots);
    for (const Stage* stage : points_.stages) {
      out_.line(vector(*stage) + ".at[l] = " + kernel_.operand(stage->value) +
                ";");
    }
    kernel_.close_lanes();
    for (const Stage* stage : points_.stages) store(*stage);
    out_.close();
  }

  static std::string vector(const Stage& stage) {
    return "y" + text(stage.output);
  }

  bool is_vector_access(const Stage& stage) const {
    return it_.lane.extent % kCudaWindowVectorWidth == 0 &&
           kernel_.is_vector_access(stage.offset);
  }

  static std::string row_starts(const Stage& stage) {
    return "places" + text(stage.output);
  }

  // Of the first row of the thread's windows; the others follow from it.
  void print_row_starts(const Stage& stage) {
    kernel_.use(stage.output);
    const Buffer& buffer = program_.buffers[stage.output];
    const bool whole = it_.lane.extent % kCudaWindowVectorWidth == 0;
    const std::string left = text(it_.lane.extent) + " - " + name_of(it_.lane);
    const bool ragged = it_.below.outer.extent % it_.below.together != 0;
    const std::string rows = ragged ? "(int)(" + text(it_.below.outer.extent) +
                                          " - " + first_below() + ")"
                                    : text(it_.below.together);
    out_.line("const RowPlaces<" + cuda_type(buffer.dtype) + "> " +
              row_starts(stage) + " = row_places(" + buffer.name + " + " +
              kernel_.index(stage.offset) + ", inside ? " +
              (whole ? text(kCudaWindowVectorWidth) : "(int)(" + left + ")") +
              " : 0, " + rows + ");");
  }

  void store(const Stage& stage) {
    const std::string& output = program_.buffers[stage.output].name;
    if (!is_vector_access(stage)) {
      out_.line("write_row(" + row_starts(stage) + ", " + vector(stage) +
                ", j, " +
                (kernel_.index_type() == "int" ? "j * " : "(long long)j * ") +
                text(stage.offset.coefficient(it_.below.outer.id)) + ");");
      return;
    }
    std::string exists = "inside";
    if (it_.below.outer.extent % it_.below.together != 0) {
      exists += " && " + name_of(it_.below.outer) + " < " +
                text(it_.below.outer.extent);
    }
    out_.line("if (" + exists + ") store_vector(" + output + " + " +
              kernel_.index(stage.offset) + ", " + vector(stage) + ");");
  }

  const Program& program_;
  const Nest& nest_;
  const Pass& reduction_;
  const Pass& points_;
  const CudaWindows& it_;
  CudaKernel& kernel_;
  Writer& out_;
  std::vector<CudaReduction> reductions_;
};

}  // namespace

void CudaNest::print_windows(const CudaWindows& windows) {
  CudaKernel kernel(program(), module_, windows.lane.id, kCudaWindowVectorWidth,
                    wide_);
  kernel.need("windows");
  const std::int64_t points =
      WindowsText(program(), nest_, passes_, windows, kernel).print();
  kernel.finish(points, kBlockThreads);
}

}  // namespace weft
