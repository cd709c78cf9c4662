// Prints the kernels of stencil tiles (stencil_tile.hpp).
#include "compiler/cuda/nest.hpp"

namespace weft {
namespace {

class StencilTileText {
 public:
  StencilTileText(const Program& program, const Nest& nest,
                  const std::vector<Pass>& passes, const CudaStencilTile& tile,
                  CudaKernel& kernel)
      : nest_(nest),
        points_(passes.back()),
        program_(program),
        it_(tile),
        reduction_(program, *passes.front().stages.front()),
        kernel_(kernel),
        out_(kernel.out()) {
    kernel.need("stencil");
    reduction_.need(kernel);
  }

  std::int64_t print() {
    const std::int64_t points = open();
    print_plane();
    begin_walk();
    gather_planes();
    fold_row();
    print_points();
    out_.close();
    return points;
  }

 private:
  bool reaches() const { return it_.left + it_.right > 0; }
  std::string partial() const {
    return "PartialVector<" + reduction_.reducer() + ", " +
           (reaches() ? "true" : "false") + ">";
  }
  std::int64_t kept_planes() const { return it_.plane.extent - it_.fresh; }
  std::string last() const { return text(it_.walked.extent - 1); }
  /// That window of the walk, or the last that there is.
  std::string window(const std::string& step) const {
    return "min(begin + " + step + ", (" + kernel_.index_type() + ")" + last() +
           ")";
  }
  bool is_ragged() const { return it_.walked.extent % it_.walk != 0; }

  // Maps the thread to a vector of a row and to the beginning of its walk.
  std::int64_t open() {
    const auto count = [&](LoopVar v) {
      return v == it_.lane     ? it_.threads
             : v == it_.walked ? ceil_div(v.extent, it_.walk)
                               : v.extent;
    };
    std::int64_t points = 1;
    for (const LoopVar& v : nest_.outer) points *= count(v);
    const std::string constant = "const " + kernel_.index_type() + " ";
    const std::string counts = "const unsigned " + kernel_.index_type() + " ";
    out_.line(counts + "point = blockIdx.x * " + text(kBlockThreads) +
              (kernel_.index_type() == "int" ? "u" : "ull") +
              " + threadIdx.x;");
    out_.line("// All threads take part: shuffles read from each.");
    out_.line("const bool inside = point < " + text(points) + ";");
    out_.line(counts + "p = inside ? point : 0;");
    std::int64_t stride = 1;
    for (std::size_t i = nest_.outer.size(); i-- > 0;) {
      const LoopVar v = nest_.outer[i];
      std::string at = "p";
      if (stride > 1) at += " / " + text(stride);
      if (i > 0) at += " % " + text(count(v));
      if (v == it_.walked) at += " * " + text(it_.walk);
      const std::string called = v == it_.lane     ? "vector"
                                 : v == it_.walked ? "begin"
                                                   : name_of(v);
      out_.line((v == it_.lane ? "const int " : constant) + called + " = " +
                at + ";");
      kernel_.set_variable(v, called);
      stride *= count(v);
    }
    if (reaches()) {
      out_.line("// Threads at a warp's ends read its halo, too.");
      out_.line("const int halo = halo_vector<" + text(it_.left) + ", " +
                text(it_.right) + ">(vector);");
    }
    return points;
  }

  // Reductions a plane of a window for the thread's four elements.
  void print_plane() {
    const auto names = kernel_.names();
    const std::string parameter = kernel_.index_type() + " ";
    out_.open("const auto across = [&](" + parameter + name_of(it_.walked) +
              ", " + parameter + name_of(it_.plane) + ")");
    kernel_.set_variable(it_.walked, name_of(it_.walked));
    kernel_.set_variable(it_.plane, name_of(it_.plane));
    out_.line(partial() + " partial;");
    if (!it_.others.empty()) {
      out_.line("#pragma unroll");
      out_.open("for (int i = 0; i < " + text(extent_of(it_.others)) +
                "; ++i)");
      kernel_.declare(it_.others, "i");
    }
    kernel_.compute(it_.guards, false);
    std::string exists;
    for (const ExprId guard : it_.guards) {
      exists += kernel_.operand(guard) + " && ";
    }
    const Scalar& load = program_.arena[it_.load];
    kernel_.use(load.buffer);
    const Index row = load.index[0].substitute(
                          {{it_.lane.id, Index(0)}, {it_.tap.id, Index(0)}}) -
                      it_.shift;
    out_.line("const float* const row = " + program_.buffers[load.buffer].name +
              " + " + kernel_.index(row) + ";");
    const std::string vectors = text(it_.vectors);
    out_.line("if (" + exists + "vector < " + vectors +
              ") partial.take(partial.own, row + vector * 4);");
    if (reaches()) {
      out_.line("if (" + exists + "halo >= 0 && halo < " + vectors +
                ") partial.take(partial.halo, row + halo * 4);");
    }
    if (!it_.others.empty()) out_.close();
    out_.line("return partial;");
    out_.close("};");
    kernel_.set_names(names);
  }

  void begin_walk() {
    out_.line("// Planes that windows share with those before.");
    out_.line(partial() + " kept[" + text(kept_planes()) + "][" +
              text(it_.distance) + "];");
    out_.line("#pragma unroll");
    out_.open("for (int k = 0; k < " + text(kept_planes()) + "; ++k)");
    out_.line("#pragma unroll");
    out_.open("for (int i = 0; i < " + text(it_.distance) + "; ++i)");
    out_.line("kept[k][i] = across(" + window("i") + ", k);");
    out_.close();
    out_.close();
    out_.line("#pragma unroll 1");
    out_.open("for (int step = 0; step < " + text(it_.walk) + "; ++step)");
    out_.line("const " + kernel_.index_type() + " " + name_of(it_.walked) +
              " = " + (is_ragged() ? window("step") : "begin + step") + ";");
    kernel_.set_variable(it_.walked, name_of(it_.walked));
  }

  void gather_planes() {
    const std::string fresh = text(it_.fresh);
    out_.line(partial() + " fresh[" + fresh + "];");
    out_.line(partial() + " all;");
    out_.line("#pragma unroll");
    out_.open("for (int k = 0; k < " + fresh + "; ++k)");
    out_.line("fresh[k] = across(" + name_of(it_.walked) + ", k + " +
              text(kept_planes()) + ");");
    out_.line("all.fold(fresh[k]);");
    out_.close();
    // The planes slide: a later window knows each by a lower number.
    for (std::int64_t k = 0; k < kept_planes(); ++k) {
      const std::string queue = "kept[" + text(k) + "]";
      out_.line("all.fold(" + queue + "[0]);");
      if (it_.distance > 1) {
        out_.line("#pragma unroll");
        out_.line("for (int i = 1; i < " + text(it_.distance) + "; ++i) " +
                  queue + "[i - 1] = " + queue + "[i];");
      }
      const std::int64_t other = k + it_.fresh;
      out_.line(queue + "[" + text(it_.distance - 1) + "] = " +
                (other < kept_planes()
                     ? "kept[" + text(other) + "][0]"
                     : "fresh[" + text(other - kept_planes()) + "]") +
                ";");
    }
  }

  // Each window's elements, own ones and neighbours'.
  void fold_row() {
    const std::string value = reduction_.value_type();
    out_.line(value + " " + reduction_.accumulators() + "[" +
              text(it_.windows) + "];");
    std::map<std::int64_t, std::string> elements;
    for (std::int64_t w = 0; w < it_.windows; ++w) {
      std::string sum;
      for (std::int64_t k = 0; k < it_.tap.extent; ++k) {
        const std::int64_t element_index = it_.element_index(w, k);
        std::string& element = elements[element_index];
        if (element.empty()) {
          element = "e" + text(static_cast<std::int64_t>(elements.size()));
          out_.line("const " + value + " " + element + " = " +
                    element_text(element_index) + ";");
        }
        sum = sum.empty()
                  ? element
                  : reduction_.reducer() + "::of(" + sum + ", " + element + ")";
      }
      out_.line(reduction_.accumulators() + "[" + text(w) + "] = " + sum + ";");
    }
  }

  std::string element_text(std::int64_t element_index) const {
    constexpr std::int64_t width = kCudaStencilVectorWidth;
    const std::int64_t vectors = floor_of(element_index, width);
    const std::string lane = "[" + text(element_index - vectors * width) + "]";
    std::string element = "all.own" + lane;
    if (vectors != 0) {
      element = "beside<" + text(vectors) + ", " + text(it_.left) + ", " +
                text(it_.right) + ">(all.own" + lane + ", all.halo" +
                (reaches() ? lane : "[0]") + ")";
    }
    const std::int64_t most =
        width * (it_.lane.extent / it_.windows - 1) + element_index;
    std::string exists;
    if (element_index < it_.low) {
      exists = "vector * 4 >= " + text(it_.low - element_index);
    }
    if (most > it_.high) {
      exists += (exists.empty() ? "" : " && ") + std::string("vector * 4 <= ") +
                text(it_.high - element_index);
    }
    if (exists.empty()) return element;
    // Evaluated by all threads: the shuffle needs them.
    return "only_if(" + exists + ", " + element + ", " + reduction_.reducer() +
           "::none())";
  }

  void print_points() {
    out_.line("const int " + name_of(it_.lane) + " = min(vector, " +
              text(it_.lane.extent / it_.windows - 1) + ") * " +
              text(it_.windows) + ";");
    kernel_.set_variable(it_.lane, name_of(it_.lane));
    const std::string at = it_.windows > 1 ? "[l]" : "[0]";
    reduction_.conclude(kernel_, reduction_.accumulators() + at, true);
    const std::vector<ExprId> roots = cuda_roots(points_);
    kernel_.compute(roots, false);
    if (it_.windows > 1) compute_result_vectors(roots);
    std::string exists = "inside";
    if (it_.threads * it_.windows != it_.lane.extent) {
      exists += " && vector < " + text(it_.lane.extent / it_.windows);
    }
    if (is_ragged()) exists += " && begin + step <= " + last();
    for (const Stage* stage : points_.stages) {
      kernel_.use(stage->output);
      const std::string& output = program_.buffers[stage->output].name;
      const std::string index = kernel_.index(stage->offset);
      const std::string store =
          it_.windows > 1
              ? "store_vector(" + output + " + " + index + ", " +
                    vector(*stage) + ")"
              : output + "[" + index + "] = " + kernel_.operand(stage->value);
      out_.line("if (" + exists + ") " + store + ";");
    }
  }

  static std::string vector(const Stage& stage) {
    return "y" + text(stage.output);
  }

  void compute_result_vectors(const std::vector<ExprId>& roots) {
    for (const Stage* stage : points_.stages) {
      const Buffer& buffer = program_.buffers[stage->output];
      out_.line("Vector<" + cuda_type(buffer.dtype) + ", " + text(it_.windows) +
                "> " + vector(*stage) + ";");
    }
    kernel_.open_lanes();
    kernel_.compute_lanes(roots);
    for (const Stage* stage : points_.stages) {
      out_.line(vector(*stage) + ".at[l] = " + kernel_.operand(stage->value) +
                ";");
    }
    kernel_.close_lanes();
  }

  const Nest& nest_;
  const Pass& points_;
  const Program& program_;
  const CudaStencilTile& it_;
  CudaReduction reduction_;
  CudaKernel& kernel_;
  Writer& out_;
};

}  // namespace

void CudaNest::print_stencil_tile(const CudaStencilTile& tile) {
  CudaKernel kernel(program(), module_, tile.lane.id,
                    static_cast<int>(tile.windows), wide_);
  const std::int64_t points =
      StencilTileText(program(), nest_, passes_, tile, kernel).print();
  kernel.finish(points, kBlockThreads);
}

}  // namespace weft
