// TF32x3: products of float32 in three passes of the matrix units' 19 bits,
// from factors that are split beforehand.
//
// A number is the sum of its nearest 19-bit number and a small remainder. Three
// of the four products of such halves matter. The factors are split once, in
// memory, laid out along the summed dimension and padded to whole tiles, so
// that the halves go to the matrix units as they are. That costs a pass over
// each factor and is profitable if each element is used many times.
#include <algorithm>

#include "compiler/loops/width.hpp"
#include "compiler/triton/dot_text.hpp"

namespace weft {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace

std::int64_t DotText::padded(std::int64_t extent, std::int64_t tile) const {
  return rounded_up(extent, std::max(kTritonSplitSquare, tile));
}

std::int64_t DotText::padded_k() const {
  const std::int64_t read = split_k_ > 1 ? split_k_ * k_per_program_ : k_;
  return rounded_up(read, std::max(kTritonSplitSquare, block_k_));
}

// Whether a pass over a factor is profitable, and its scratch memory, depend on
// the size.
bool DotText::may_split_factors() const {
  return variant_.splits_factors && precision() == "tf32x3" &&
         !module_.for_sizes();
}

bool DotText::split_is_profitable(std::int64_t rows, std::int64_t columns,
                                  std::int64_t k) const {
  return may_split_factors() &&
         std::min(rows, columns) >= choices_.presplit_extent_min &&
         k >= choices_.presplit_folded_min;
}

bool DotText::wants_split_factors() const {
  if (!split_is_profitable(rows_, columns_, k_)) return false;
  const std::int64_t most =
      extent_of(it_.batch) * padded_k() *
      std::max(padded(rows_, block_m_), padded(columns_, block_n_));
  return most < INT32_MAX && 8 * most < choices_.presplit_bytes_max;
}

std::string DotText::split_factor(const char* name, const char* half) const {
  return std::string(name) + "_" + half + text(sum().results[0]);
}

void DotText::print_split_factor(ExprId factor, const char* name,
                                 const std::vector<LoopVar>& variables,
                                 std::int64_t tile) {
  const std::int64_t extent = extent_of(variables);
  const std::int64_t high = padded(extent, tile);
  const std::int64_t wide = padded_k();
  const std::int64_t squares_per_row = wide / kTritonSplitSquare;
  const std::int64_t squares = high / kTritonSplitSquare * squares_per_row;
  TritonKernel kernel(plan_.program, module_);
  choose_width(kernel);
  const std::string offsets = "tl.arange(0, " + text(kTritonSplitSquare) + ")";
  kernel.line("tile = tl.program_id(0)");
  std::string address = "m";
  if (!it_.batch.empty()) {
    kernel.line("matrix = tile // " + text(squares));
    kernel.line("tile = tile % " + text(squares));
    kernel.name_variables(it_.batch, "matrix", Axis::none, "");
    address = "(matrix * " + text(high) + " + m)";
  }
  kernel.line("m = tile // " + text(squares_per_row) + " * " +
              text(kTritonSplitSquare) + " + " + offsets + "[:, None]");
  kernel.line("k = tile % " + text(squares_per_row) + " * " +
              text(kTritonSplitSquare) + " + " + offsets + "[None, :]");
  const bool ragged = high != extent || wide != k_;
  if (ragged) {
    kernel.line("inside = (m < " + text(extent) + ") & (k < " + text(k_) + ")");
  }
  const std::string mask = ragged ? "inside" : "";
  kernel.name_variables(variables, "m", Axis::rows, mask);
  kernel.name_variables(it_.reduced, "k", Axis::columns, mask);
  kernel.compute({factor}, false);
  std::string value = kernel.operand(factor);
  if (ragged) value = "tl.where(inside, " + value + ", 0.0)";
  kernel.help("high_half");
  kernel.help("low_half");
  kernel.line("x = tl.broadcast_to(" + value + ", (" +
              text(kTritonSplitSquare) + ", " + text(kTritonSplitSquare) +
              "))");
  for (const char* half : {"high", "low"}) {
    const std::string buffer = split_factor(name, half);
    module_.scratch.push_back({buffer, extent_of(it_.batch) * high * wide});
    kernel.use(buffer);
    kernel.line("tl.store(" + buffer + " + (" + address + " * " + text(wide) +
                " + k), _" + half + "_half(x))");
  }
  kernel.finish(extent_of(it_.batch) * squares, 8);
}

void DotText::open_split_factors(TritonKernel& kernel) const {
  for (const char* name : {"a", "b"}) {
    const bool is_a = name[0] == 'a';
    const std::int64_t tile = is_a ? block_m_ : block_n_;
    const std::int64_t high = padded(is_a ? rows_ : columns_, tile);
    const std::string base =
        it_.batch.empty() ? "" : "matrix * " + text(high) + " + ";
    kernel.line(std::string("at_") + name + " = (" + base +
                (is_a ? "row" : "column") + " * " + text(tile) +
                " + tl.arange(0, " + text(tile) + ")[:, None]) * " +
                text(padded_k()));
    for (const char* half : {"high", "low"})
      kernel.use(split_factor(name, half));
  }
}

void DotText::print_split_step(TritonKernel& kernel) const {
  kernel.line("kk = " + first() + " + tl.arange(0, " + text(block_k_) +
              ")[None, :]");
  for (const char* name : {"a", "b"}) {
    for (const char* half : {"high", "low"}) {
      kernel.line(std::string(name) + "_" + half + " = tl.load(" +
                  split_factor(name, half) + " + (at_" + name + " + kk))");
    }
  }
  const auto dot = [&](const char* sums, const char* a, const char* b) {
    const bool begins = std::string_view(sums) == "large";
    kernel.line(std::string(sums) + " = tl.dot(" + a + ", tl.trans(" + b +
                "), " + (begins ? "nothing" : sums) +
                ", input_precision=\"tf32\")");
  };
  dot("small", "a_low", "b_high");
  dot("small", "a_high", "b_low");
  // The matrix units cut off what they add up; over a long sum that shows. So
  // each step's large part begins at zero and is added outside of them.
  dot("large", "a_high", "b_high");
  kernel.line("sums += large");
}

}  // namespace weft
