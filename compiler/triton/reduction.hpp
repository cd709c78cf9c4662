// Reductions in Triton: initial value of an accumulator, its update by a tile,
// and the final reduction of a tile.
#pragma once

#include <string>
#include <vector>

#include "compiler/triton/kernel.hpp"

namespace weft {

class TritonReduction {
 public:
  TritonReduction(const Program& program, const Stage& stage);

  /// Names of the reduction's results: one, or value and position.
  const std::vector<std::string>& names() const { return names_; }
  /// Prints an accumulator of that shape.
  void begin(TritonKernel& kernel, const std::string& shape) const;
  /// The tile to reduce; elements outside of the mask are set to the neutral
  /// value.
  std::vector<std::string> tile(TritonKernel& kernel, const std::string& shape,
                                const std::string& mask) const;
  /// Prints the update of the accumulator by a tile.
  void take(TritonKernel& kernel, const std::vector<std::string>& tile) const;
  /// Prints the reduction of these values along the inner dimension, which
  /// gives the results.
  void reduce(TritonKernel& kernel,
              const std::vector<std::string>& values) const;
  /// Prints the conversion of the results to what the stage's readers expect.
  void conclude(TritonKernel& kernel) const;

  /// For a scan: the tile's running values, after `carry` ("" for none), and
  /// the carry for the next tile.
  void scan(TritonKernel& kernel, const std::string& tile,
            const std::string& carry) const;

  bool has_position() const { return names_.size() > 1; }
  /// Element type of the accumulators: truth values are numbers.
  DType accumulator_dtype() const;
  /// Value of a masked load that does not change the result.
  std::string neutral(std::size_t which) const;

 private:
  std::string combiner() const;

  const Program& program_;
  const Stage& stage_;
  std::vector<std::string> names_;
};

}  // namespace weft
