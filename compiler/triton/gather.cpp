// Convolutions as products: the windows are gathered as they go, element by
// element, and what that costs is made little.
//
// Neighbours along an image's last dimension are read by neighbouring lanes
// only if Triton sees them side by side, which it does by powers of two: rows
// are padded to these. And the factor with fewer elements (the weights, but for
// tiny images) is laid out once, in the order in which it is reduced, so that
// no tap is looked for in the loop.
#include <algorithm>

#include "compiler/loops/width.hpp"
#include "compiler/triton/dot_text.hpp"

namespace weft {
namespace {

// Elements of a vector load.
constexpr std::int64_t kPack = 4;

}  // namespace

bool DotText::convolves() const {
  return sum().note.find("convolution") != std::string::npos;
}

bool DotText::gathers() const {
  const auto is_single = [&](ExprId id) {
    const Scalar& node = plan_.program.arena[id];
    if (node.op != ScalarOp::load || node.index.empty()) return false;
    const auto& terms = node.index[0].terms();
    return node.guarded || std::ranges::count_if(terms, [](const auto& term) {
                             return term.coefficient % kPack != 0;
                           }) > 1;
  };
  return convolves() &&
         std::ranges::any_of(plan_.program.arena.reachable({it_.a, it_.b}),
                             is_single);
}

void DotText::pad_rows() {
  if (may_split_factors() || !gathers() || it_.rows.size() < 2) return;
  LoopVar& last = it_.rows.back();
  for (std::int64_t width = choices_.gathered_lanes_max;
       width >= choices_.gathered_lanes_min; width /= 2) {
    const std::int64_t padded = ceil_div(last.extent, width) * width;
    if (padded == last.extent) return;
    if (8 * padded > 9 * last.extent) continue;
    last_row_ = last.extent;
    last.extent = padded;
    return;
  }
}

std::string DotText::row_mask(const std::string& row) const {
  if (last_row_ == 0) return "";
  return "(" + row + " % " + text(it_.rows.back().extent) + " < " +
         text(last_row_) + ")";
}

// Not what lies so already.
bool DotText::wants_layout() const {
  const Scalar& read = plan_.program.arena[it_.b];
  if (module_.for_sizes() || may_split_factors() || !gathers() ||
      rows_ < choices_.layout_rows_min || read.op != ScalarOp::load ||
      read.dtype != DType::f32 ||
      extent_of(it_.batch) * laid_out_elements() >
          choices_.layout_elements_max) {
    return false;
  }
  std::int64_t stride = 1;
  bool lies_so = !read.guarded;
  for (std::size_t i = it_.reduced.size(); i-- > 0;) {
    lies_so = lies_so && read.index[0].coefficient(it_.reduced[i].id) == stride;
    stride *= it_.reduced[i].extent;
  }
  return !lies_so;
}

std::int64_t DotText::laid_out_width() const {
  const std::int64_t step = split_k_ > 1 ? k_per_program_ : block_k_;
  return ceil_div(k_, step) * step;
}

// Of one batch.
std::int64_t DotText::laid_out_elements() const {
  return ceil_div(columns_, block_n_) * block_n_ * laid_out_width();
}

void DotText::print_layout() {
  const std::int64_t elements = laid_out_elements();
  TritonKernel kernel(plan_.program, module_);
  choose_width(kernel);
  kernel.line("r = " + kernel.program_id() + " * " + text(kTritonLayoutBlock) +
              " + tl.arange(0, " + text(kTritonLayoutBlock) + ")[None, :]");
  kernel.line("k = r % " + text(laid_out_width()));
  kernel.line("n = r // " + text(laid_out_width()) + " % " +
              text(elements / laid_out_width()));
  std::string inside = "(k < " + text(k_) + ") & (n < " + text(columns_) + ")";
  if (!phase_mask("n").empty()) inside += " & " + phase_mask("n");
  if (!it_.batch.empty()) {
    kernel.line("matrix = r // " + text(elements));
    kernel.name_variables(it_.batch, "matrix", Axis::columns, "");
    inside += " & (matrix < " + text(extent_of(it_.batch)) + ")";
  } else {
    inside += " & (r < " + text(elements) + ")";
  }
  kernel.line("inside = " + inside);
  kernel.name_variables(it_.columns, "n", Axis::columns, "inside");
  kernel.name_variables(it_.reduced, "k", Axis::columns, "inside");
  kernel.compute({it_.b}, false);
  const std::int64_t all = extent_of(it_.batch) * elements;
  module_.scratch.push_back({laid_out(), all});
  kernel.use(laid_out());
  const std::string tile = "tl.broadcast_to(" + kernel.operand(it_.b) +
                           ", (1, " + text(kTritonLayoutBlock) + "))";
  kernel.line("tl.store(" + laid_out() + " + r, " + in_tf32(kernel, tile) +
              ", mask=r < " + text(all) + ")");
  kernel.finish(ceil_div(all, kTritonLayoutBlock), 4);
}

// A step's tile of the weights.
void DotText::print_laid_out(TritonKernel& kernel) const {
  kernel.use(laid_out());
  const std::string of_batch =
      it_.batch.empty() ? "" : "matrix * " + text(laid_out_elements()) + " + ";
  kernel.line("b = tl.load(" + laid_out() + " + (" + of_batch + "n * " +
              text(laid_out_width()) + " + (" + first() + ") + tl.arange(0, " +
              text(block_k_) + ")[:, None]))");
}

}  // namespace weft
