// Products of float32 in three passes of the matrix units' 19 bits, from
// factors that are split beforehand.
//
// A number is the sum of its nearest 19-bit number and a small rest; of the
// four products of such halves three count. Split once, in memory, and laid out
// along what is folded and padded to whole tiles, the halves go to the matrix
// units as they are. That costs a pass over each factor, and pays where each of
// its elements is used many times.
#include <algorithm>

#include "compiler/loops/width.hpp"
#include "compiler/triton/dot_text.hpp"

namespace weft {
namespace {

/// The tile that is transposed at a time.
constexpr std::int64_t kSquare = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace

std::int64_t DotText::padded(std::int64_t extent, std::int64_t tile) const {
  return rounded_up(extent, std::max(kSquare, tile));
}

std::int64_t DotText::padded_folded() const {
  const std::int64_t read = shares_ > 1 ? shares_ * share_ : folded_;
  return rounded_up(read, std::max(kSquare, tile_folded_));
}

// How much scratch, and whether a pass over a factor pays, goes by the size.
bool DotText::may_presplit() const {
  return variant_.presplits && precision() == "tf32x3" && !module_.for_sizes();
}

bool DotText::pays_presplit(std::int64_t rows, std::int64_t columns,
                            std::int64_t folded) const {
  return may_presplit() &&
         std::min(rows, columns) >= choices_.presplit_extent_min &&
         folded >= choices_.presplit_folded_min;
}

bool DotText::wants_presplit() const {
  if (!pays_presplit(rows_, columns_, folded_)) return false;
  const std::int64_t most =
      extent_of(it_.batch) * padded_folded() *
      std::max(padded(rows_, tile_rows_), padded(columns_, tile_columns_));
  return most < INT32_MAX && 8 * most < choices_.presplit_bytes_max;
}

std::string DotText::split_factor(const char* name, const char* half) const {
  return std::string(name) + "_" + half + text(sum().results[0]);
}

void DotText::print_presplit(ExprId factor, const char* name,
                             const std::vector<LoopVar>& variables,
                             std::int64_t tile) {
  const std::int64_t extent = extent_of(variables);
  const std::int64_t high = padded(extent, tile);
  const std::int64_t wide = padded_folded();
  const std::int64_t across = wide / kSquare;
  const std::int64_t squares = high / kSquare * across;
  TritonKernel kernel(plan_.program, module_);
  choose_width(kernel);
  const std::string lanes = "tl.arange(0, " + text(kSquare) + ")";
  kernel.line("tile = tl.program_id(0)");
  std::string place = "m";
  if (!it_.batch.empty()) {
    kernel.line("matrix = tile // " + text(squares));
    kernel.line("tile = tile % " + text(squares));
    kernel.name_variables(it_.batch, "matrix", Axis::none, "");
    place = "(matrix * " + text(high) + " + m)";
  }
  kernel.line("m = tile // " + text(across) + " * " + text(kSquare) + " + " +
              lanes + "[:, None]");
  kernel.line("k = tile % " + text(across) + " * " + text(kSquare) + " + " +
              lanes + "[None, :]");
  const bool ragged = high != extent || wide != folded_;
  if (ragged) {
    kernel.line("inside = (m < " + text(extent) + ") & (k < " + text(folded_) +
                ")");
  }
  const std::string mask = ragged ? "inside" : "";
  kernel.name_variables(variables, "m", Axis::rows, mask);
  kernel.name_variables(it_.folded, "k", Axis::columns, mask);
  kernel.compute({factor}, false);
  std::string value = kernel.operand(factor);
  if (ragged) value = "tl.where(inside, " + value + ", 0.0)";
  kernel.help("high_half");
  kernel.help("low_half");
  kernel.line("x = tl.broadcast_to(" + value + ", (" + text(kSquare) + ", " +
              text(kSquare) + "))");
  for (const char* half : {"high", "low"}) {
    const std::string buffer = split_factor(name, half);
    module_.scratch.push_back({buffer, extent_of(it_.batch) * high * wide});
    kernel.use(buffer);
    kernel.line("tl.store(" + buffer + " + (" + place + " * " + text(wide) +
                " + k), _" + half + "_half(x))");
  }
  kernel.finish(extent_of(it_.batch) * squares, 8);
}

void DotText::open_presplit(TritonKernel& kernel) const {
  for (const char* name : {"a", "b"}) {
    const bool is_a = name[0] == 'a';
    const std::int64_t tile = is_a ? tile_rows_ : tile_columns_;
    const std::int64_t high = padded(is_a ? rows_ : columns_, tile);
    const std::string base =
        it_.batch.empty() ? "" : "matrix * " + text(high) + " + ";
    kernel.line(std::string("at_") + name + " = (" + base +
                (is_a ? "row" : "column") + " * " + text(tile) +
                " + tl.arange(0, " + text(tile) + ")[:, None]) * " +
                text(padded_folded()));
    for (const char* half : {"high", "low"})
      kernel.use(split_factor(name, half));
  }
}

void DotText::print_presplit_step(TritonKernel& kernel) const {
  kernel.line("kk = " + first() + " + tl.arange(0, " + text(tile_folded_) +
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
