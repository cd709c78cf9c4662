// One fold of a CUDA kernel: its accumulators, one a lane, and what is made of
// them at the end.
#pragma once

#include <string>
#include <vector>

#include "compiler/cpu_pass.hpp"
#include "compiler/cuda_kernel.hpp"

namespace weft {

class CudaFold {
 public:
  /// `exponentials`: a fold that this one takes along, the sum of e to the
  /// power of how far each value lies above the largest, which this one finds.
  CudaFold(const Program& program, const Stage& stage,
           const Stage* exponentials = nullptr);

  const Stage& stage() const { return stage_; }
  const Stage* exponentials() const { return exponentials_; }
  bool has_position() const { return stage_.position >= 0; }
  /// "Sum<float>", of the prelude.
  std::string reducer() const;
  /// "float"; "Best<float>" with a position.
  std::string value_type() const;
  std::int64_t value_bytes() const;
  /// "a4": an array of one value a lane.
  std::string lanes() const;
  /// "f4": the whole fold, where lanes are folded too.
  std::string whole() const;

  void declare(CudaKernel& kernel) const;
  /// What the stage computes, as the fold's value; inside the loop over lanes.
  std::string step_value(const CudaKernel& kernel) const;
  void step(CudaKernel& kernel) const;
  /// Makes the results known: what is in `text`, a fold's value.
  void conclude(CudaKernel& kernel, const std::string& text,
                bool by_lane) const;
  void need(CudaKernel& kernel) const;

 private:
  const Program& program_;
  const Stage& stage_;
  const Stage* exponentials_;
};

/// The sum of exponentials that can go with the largest value: softmax's. Both
/// stages fold the same values, the second reads the first's result.
bool goes_with_largest(const Program& program, const Stage& largest,
                       const Stage& sum);

}  // namespace weft
