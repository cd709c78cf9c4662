// One fold of a CUDA kernel: its accumulators, one a lane, and what is made of
// them at the end.
#pragma once

#include <string>
#include <vector>

#include "compiler/cuda/kernel.hpp"
#include "compiler/loops/pass.hpp"

namespace weft {

class CudaFold {
 public:
  /// `companion`: a fold in the same walk (can_fuse_folds()). `closes`: lanes
  /// are folded too.
  CudaFold(const Program& program, const Stage& stage,
           const Stage* companion = nullptr, bool closes = false);

  const Stage& stage() const { return stage_; }
  const Stage* companion() const { return companion_; }
  bool has_position() const { return stage_.position >= 0; }
  /// "Sum<float>", of the prelude.
  std::string reducer() const;
  /// "float"; "Best<float>" with a position.
  std::string value_type() const;
  std::int64_t value_bytes() const;
  /// What folds all lanes' accumulators.
  std::string closed(const CudaKernel& kernel) const;
  /// "a4": an array of one value a lane.
  std::string lanes() const;
  /// "f4": the whole fold, where lanes are folded too.
  std::string whole() const;

  void declare(CudaKernel& kernel) const;
  /// What the stage computes, as the fold's value; inside the loop over lanes.
  std::string step_value(const CudaKernel& kernel) const;
  void step(CudaKernel& kernel) const;
  /// Before and after the loop over lanes, where these go together.
  void open_vector(CudaKernel& kernel) const;
  void close_vector(CudaKernel& kernel) const;
  /// Makes the results known: what is in `text`, a fold's value.
  void conclude(CudaKernel& kernel, const std::string& text,
                bool by_lane) const;
  void need(CudaKernel& kernel) const;

 private:
  bool is_spread() const {
    return companion_ != nullptr && stage_.fold == Fold::sum;
  }

  bool takes_vectors(const CudaKernel& kernel) const {
    return closes_ && companion_ != nullptr && !is_spread() &&
           kernel.lanes() > 1;
  }
  /// "p4": the values of a vector's lanes, before they are folded.
  std::string vector() const;

  const Program& program_;
  const Stage& stage_;
  const Stage* companion_;
  bool closes_;
};

/// Whether two folds of the same values, the second of which reads the first's
/// result, can go in one walk: the largest value and the sum of exponentials
/// about it (softmax's), or the sum and the sum of squares about the mean.
bool can_fuse_folds(const Program& program, const Stage& first,
                    const Stage& second);

}  // namespace weft
