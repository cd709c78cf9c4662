// Prints the kernels of one sum of products.
#pragma once

#include <string>

#include "compiler/triton/dot.hpp"
#include "compiler/triton/nest_text.hpp"

namespace weft {

/// The matrix units' smallest tiles, of rows, columns and folded elements.
inline constexpr std::int64_t kTileMin = 16;

class DotText {
 public:
  DotText(const Schedule& plan, const Nest& nest, Contraction contraction,
          const TritonVariant& variant, const GpuFacts& facts,
          TritonModule& module);

  void print();

 private:
  const Stage& sum() const { return nest_.stages.front(); }
  /// What the factors are for the matrix units.
  void choose_type(const GpuFacts& facts);
  /// Where the result is written.
  Index place() const;
  /// Rows and columns in the order of what is written with them.
  void sort_outer();
  /// What the product's own size calls for, where the variant leaves it that.
  void choose_tile(const GpuFacts& facts);
  /// With too few tiles to go round, programs share the sums.
  void choose_shares(const GpuFacts& facts);
  void choose_stages(const GpuFacts& facts);
  std::int64_t step_bytes(ExprId factor, const std::vector<LoopVar>& points,
                          std::int64_t tile) const;
  std::string part() const { return "part" + std::to_string(sum().results[0]); }
  /// "tf32" or "tf32x3": how float32 goes through the matrix units; or "ieee".
  std::string precision() const;
  /// A float32 factor's tile, rounded to what one pass of TF32 reads of it.
  std::string in_tf32(TritonKernel& kernel, const std::string& factor) const;

  void print_product();
  void choose_width(TritonKernel& kernel) const;
  /// ".to(…)", if positions are wide.
  static std::string wide(const TritonKernel& kernel);
  Count tiles() const { return product(down_, across_); }
  /// Which tile, batch and share the program has.
  void open_program(TritonKernel& kernel) const;
  void open_tile(TritonKernel& kernel) const;
  /// The name of a mask, which it prints; "" where none is needed.
  static std::string mask(TritonKernel& kernel, const std::string& name,
                          const std::string& padding, std::int64_t extent,
                          bool ragged);
  void print_step(TritonKernel& kernel) const;
  /// One factor's tile at this step of the fold.
  void print_factor(TritonKernel& kernel, ExprId factor, const char* name,
                    Axis folded, const std::string& shape) const;
  /// Where a term that is left out has made a nan of its 0 and an infinity:
  /// the sums once more, term by term.
  void print_without_left_out(TritonKernel& kernel,
                              const std::string& shape) const;
  /// Where this step's folded elements begin.
  std::string first() const;
  void store_part(TritonKernel& kernel);
  void print_epilogue(TritonKernel& kernel, const std::string& shape) const;
  /// Adds up what the shares left, element by element.
  void print_merge();

  // Convolutions: triton_gather.cpp.
  bool convolves() const;
  /// Whether a convolution's factor is read element by element, as its window
  /// moves by single ones.
  bool gathers() const;
  void pad_rows();
  /// Whether a row is none of padding; "" where none is.
  std::string row_mask(const std::string& row) const;
  bool wants_layout() const;
  std::int64_t laid_out_width() const;
  std::int64_t laid_out_elements() const;
  std::string laid_out() const {
    return "laid" + std::to_string(sum().results[0]);
  }
  void print_layout();
  void print_laid_out(TritonKernel& kernel) const;

  // Interleaved results: triton_interleave.cpp.
  void choose_interleave();
  /// Whether a column is a phase, and not padding; "" where all are.
  std::string phase_mask(const std::string& column) const;
  std::string turned(const std::string& value) const;
  /// Names the variables as they lie in the turned tile.
  void open_turned(TritonKernel& kernel) const;

  // Packed factors: presplit.cpp.
  bool may_presplit() const;
  /// Whether each element of both factors is used so often that it pays.
  bool pays_presplit(std::int64_t rows, std::int64_t columns,
                     std::int64_t folded) const;
  bool wants_presplit() const;
  std::string split_factor(const char* name, const char* half) const;
  std::int64_t padded(std::int64_t extent, std::int64_t tile) const;
  std::int64_t padded_folded() const;
  void print_presplit(ExprId factor, const char* name,
                      const std::vector<LoopVar>& variables, std::int64_t tile);
  void open_presplit(TritonKernel& kernel) const;
  void print_presplit_step(TritonKernel& kernel) const;

  const Schedule& plan_;
  const Nest& nest_;
  Contraction it_;
  TritonVariant variant_;
  const TritonProductChoices& choices_;
  TritonModule& module_;
  DType dtype_ = DType::f32;  ///< of the factors
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t folded_ = 1;
  std::int64_t tile_rows_ = 16;
  std::int64_t tile_columns_ = 16;
  std::int64_t tile_folded_ = 16;
  std::int64_t phases_ = 0;  ///< the last column's, if they are interleaved
  Count down_;               ///< tiles of rows,
  Count across_;             ///< and of columns
  std::int64_t share_ = 0;   ///< of the folded elements, a program's
  std::int64_t shares_ = 1;  ///< programs for one tile
  bool packs_ = false;
  bool lays_out_ = false;      ///< the weights
  std::int64_t last_row_ = 0;  ///< extent of the last row's, if it is padded
  int stages_ = 2;
};

}  // namespace weft
