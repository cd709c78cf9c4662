// One reduction of a CUDA kernel: its accumulators, one for each lane, and what
// happens to them at the end.
#pragma once

#include <string>
#include <vector>

#include "compiler/cuda/kernel.hpp"
#include "compiler/loops/pass.hpp"

namespace weft {

class CudaReduction {
 public:
  /// `companion`: a reduction fused into the same walk (can_fuse_reductions()).
  /// `closes`: the lanes are reduced too.
  CudaReduction(const Program& program, const Stage& stage,
                const Stage* companion = nullptr, bool closes = false);

  const Stage& stage() const { return stage_; }
  const Stage* companion() const { return companion_; }
  bool has_position() const { return stage_.position >= 0; }
  /// "Sum<float>", of the prelude.
  std::string reducer() const;
  /// "float"; "Best<float>" with a position.
  std::string value_type() const;
  std::int64_t value_bytes() const;
  /// Expression that reduces all lanes' accumulators.
  std::string closed(const CudaKernel& kernel) const;
  /// "a4": an array with one accumulator for each lane.
  std::string accumulators() const;
  /// "f4": the whole reduction, where lanes are reduced too.
  std::string whole() const;

  void declare(CudaKernel& kernel) const;
  /// The stage's value for one element, as the reduction's value type; inside
  /// the loop over lanes.
  std::string step_value(const CudaKernel& kernel) const;
  void step(CudaKernel& kernel) const;
  /// Code before and after the loop over lanes, where lanes are reduced
  /// together.
  void open_vector(CudaKernel& kernel) const;
  void close_vector(CudaKernel& kernel) const;
  /// Defines the results from `text`, the reduction's value.
  void conclude(CudaKernel& kernel, const std::string& text,
                bool by_lane) const;
  void need(CudaKernel& kernel) const;

 private:
  bool is_spread() const {
    return companion_ != nullptr && stage_.reduction == Reduction::sum;
  }

  bool takes_vectors(const CudaKernel& kernel) const {
    return closes_ && companion_ != nullptr && !is_spread() &&
           kernel.vector_width() > 1;
  }
  /// "p4": the values of a vector's lanes, before they are reduced.
  std::string vector() const;

  const Program& program_;
  const Stage& stage_;
  const Stage* companion_;
  bool closes_;
};

/// True if two reductions of the same values, the second of which reads the
/// first's result, can share one walk: the maximum and the sum of exponentials
/// relative to it (softmax), or the sum and the sum of squares about the mean.
bool can_fuse_reductions(const Program& program, const Stage& first,
                         const Stage& second);

}  // namespace weft
