// Folds in Triton's words: what an accumulator begins with, how it takes a
// value, and what is left of a tile.
#pragma once

#include <string>
#include <vector>

#include "compiler/triton/kernel.hpp"

namespace weft {

class TritonFold {
 public:
  TritonFold(const Program& program, const Stage& stage);

  /// The names that the fold's results go by: one, or value and position.
  const std::vector<std::string>& names() const { return names_; }
  /// An accumulator of that shape, as statements.
  void begin(TritonKernel& kernel, const std::string& shape) const;
  /// The tile that is folded, with what lies outside of the mask made neutral.
  std::vector<std::string> tile(TritonKernel& kernel, const std::string& shape,
                                const std::string& mask) const;
  /// The accumulator takes a tile.
  void take(TritonKernel& kernel, const std::vector<std::string>& tile) const;
  /// The results are what is left of these along the inner dimension.
  void reduce(TritonKernel& kernel,
              const std::vector<std::string>& values) const;
  /// The results turned into what a stage's readers expect.
  void conclude(TritonKernel& kernel) const;

  /// Of a scan: the tile's running values, after `carry` ("" for none); and the
  /// carry for the next tile.
  void scan(TritonKernel& kernel, const std::string& tile,
            const std::string& carry) const;

  bool has_position() const { return names_.size() > 1; }
  /// What accumulators hold: truth values as numbers.
  DType accumulator_dtype() const;
  /// What a masked load gives that must not count.
  std::string neutral(std::size_t which) const;

 private:
  std::string combiner() const;

  const Program& program_;
  const Stage& stage_;
  std::vector<std::string> names_;
};

}  // namespace weft
