// What a target wants of lowering. Apart from lower.hpp, so that a target's
// header can name it.
#pragma once

#include <set>
#include <string>

#include "compiler/choices/lowering_choices.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

struct LoweringOptions {
  /// Whether the target has that function of the prelude on elements of that
  /// type; null: it has all.
  bool (*has_function)(const std::string& function, DType dtype) = nullptr;
  LoweringChoices choices{};  ///< what is decided by speed alone
  /// Variances and lengths of float32 are taken in float64, as PyTorch's
  /// code for processors does: far means leave their digits, and squares of
  /// tiny and huge numbers are numbers.
  bool wide_moments = false;
  /// The mean of a variance is corrected by the mean deviation from it, so that
  /// equal numbers have no variance left, as in PyTorch. (CUDA code has this
  /// where it reduces both in one walk.)
  bool mended_means = false;
  /// Matrix products, convolutions and attention become sums of products.
  /// Otherwise they have no rule and stay PyTorch's.
  bool contractions = false;
  /// Even without `contractions`, convolutions of single channels become
  /// reductions of windows.
  bool depthwise = false;
  /// The target has code for stages that add in place. Otherwise a scatter-add
  /// is a reduction over all entries for each element.
  bool adds_in_place = false;
  /// float16 and bfloat16 are read and written, and computed in as float32.
  bool halves = false;
  /// The target has functions for results that are rounded to a half next:
  /// "half_exp", … (compiler/cpu/prelude/half_functions.prelude.hpp).
  bool half_functions = false;
  /// Intermediate values between two operators are not rounded to their type,
  /// and products may be fused into sums across operators: faster, but not
  /// PyTorch's results. Otherwise each operator's result is rounded.
  bool free_rounding = false;
  /// Eager's results, with which kernels are compared, are a GPU's: it rounds
  /// other scalars than on a processor (promotion.hpp).
  bool eager_on_gpu = false;
  /// The graph is symbolic (compiler/graph/symbolic_shapes.hpp): nothing is
  /// decided by how long a row is, and the number of reduced elements is kept
  /// as a count.
  bool for_sizes = false;
  /// Calls whose value is materialized (keep_values.hpp).
  std::set<std::string> keep{};
};

}  // namespace weft
