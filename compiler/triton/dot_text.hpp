// Prints the kernels of one sum of products.
#pragma once

#include <string>

#include "compiler/triton/dot.hpp"
#include "compiler/triton/nest_text.hpp"

namespace weft {

/// Smallest tiles of the matrix units: rows, columns and elements of the sum.
inline constexpr std::int64_t kTileMin = 16;

class DotText {
 public:
  DotText(const Schedule& plan, const Nest& nest, Contraction contraction,
          const TritonVariant& variant, const GpuFacts& facts,
          TritonModule& module);

  void print();
  const TileReason& tile_reason() const { return tile_reason_; }

 private:
  const Stage& sum() const { return nest_.stages.front(); }
  /// Chooses the element type of the factors for the matrix units.
  void choose_type(const GpuFacts& facts);
  /// Index at which the result is written.
  Index output_index() const;
  /// Sorts rows and columns by the order of what is written with them.
  void sort_outer();
  /// Chooses the tile for the product's size, if the variant leaves it open.
  void choose_tile(const GpuFacts& facts);
  /// Chooses split-k if there are too few tiles for the device.
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
  Count tiles() const { return product(row_tiles_, column_tiles_); }
  /// Prints which tile, batch and part of the sum the program has.
  void open_program(TritonKernel& kernel) const;
  void open_tile(TritonKernel& kernel) const;
  /// The name of a mask, which it prints; "" where none is needed.
  static std::string mask(TritonKernel& kernel, const std::string& name,
                          const std::string& padding, std::int64_t extent,
                          bool ragged);
  void print_step(TritonKernel& kernel) const;
  /// One factor's tile at this step of the sum.
  void print_factor(TritonKernel& kernel, ExprId factor, const char* name,
                    Axis k, const std::string& shape) const;
  /// Where a guarded term is NaN (its 0 times an infinity): the sums once more,
  /// term by term.
  void print_without_left_out(TritonKernel& kernel,
                              const std::string& shape) const;
  /// Where this step's elements of the sum begin.
  std::string first() const;
  void store_part(TritonKernel& kernel);
  void print_epilogue(TritonKernel& kernel, const std::string& shape) const;
  /// Adds up the partial sums of split-k, element by element.
  void print_merge();

  // Convolutions: gather.cpp.
  bool convolves() const;
  /// True if a convolution's factor is read element by element, because its
  /// window moves by single elements.
  bool gathers() const;
  void pad_rows();
  /// Condition that a row is not padding; "" if no row is.
  std::string row_mask(const std::string& row) const;
  bool wants_layout() const;
  std::int64_t laid_out_width() const;
  std::int64_t laid_out_elements() const;
  std::string laid_out() const {
    return "laid" + std::to_string(sum().results[0]);
  }
  void print_layout();
  void print_laid_out(TritonKernel& kernel) const;

  // Interleaved results: interleave.cpp.
  void choose_interleave();
  /// Condition that a column is a phase and not padding; "" if all are.
  std::string phase_mask(const std::string& column) const;
  std::string turned(const std::string& value) const;
  /// Names the variables as they lie in the transposed tile.
  void open_turned(TritonKernel& kernel) const;

  // Factors that are split beforehand: tf32x3_split.cpp.
  bool may_split_factors() const;
  /// True if each element of both factors is used often enough.
  bool split_is_profitable(std::int64_t rows, std::int64_t columns,
                           std::int64_t k) const;
  bool wants_split_factors() const;
  std::string split_factor(const char* name, const char* half) const;
  std::int64_t padded(std::int64_t extent, std::int64_t tile) const;
  std::int64_t padded_k() const;
  void print_split_factor(ExprId factor, const char* name,
                          const std::vector<LoopVar>& variables,
                          std::int64_t tile);
  void open_split_factors(TritonKernel& kernel) const;
  void print_split_step(TritonKernel& kernel) const;

  const Schedule& plan_;
  const Nest& nest_;
  Contraction it_;
  TritonVariant variant_;
  const TritonProductChoices& choices_;
  TritonModule& module_;
  DType dtype_ = DType::f32;  ///< of the factors
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t k_ = 1;
  std::int64_t block_m_ = 16;
  std::int64_t block_n_ = 16;
  std::int64_t block_k_ = 16;
  std::int64_t phases_ = 0;  ///< the last column's, if they are interleaved
  Count row_tiles_;          ///< tiles of rows,
  Count column_tiles_;       ///< and of columns
  std::int64_t k_per_program_ = 0;  ///< of the reduced elements, a program's
  std::int64_t split_k_ = 1;        ///< programs for one tile
  bool splits_factors_ = false;
  bool lays_out_ = false;      ///< the weights
  std::int64_t last_row_ = 0;  ///< extent of the last row's, if it is padded
  int stages_ = 2;
  TileReason tile_reason_;
};

}  // namespace weft
