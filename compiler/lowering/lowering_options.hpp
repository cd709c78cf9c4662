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
  /// Variances and lengths of float32 are taken in float64, as the framework's
  /// code for processors does: far means leave their digits, and squares of
  /// tiny and huge numbers are numbers.
  bool wide_moments = false;
  /// A variance's mean is put right by what the numbers are off it, so that of
  /// equal ones nothing is left, as of the framework's. (Code for CUDA has
  /// this where it folds both in one walk, and else lacks it.)
  bool mended_means = false;
  /// Matrix products, convolutions and attention become sums of products;
  /// without, they have no rule and stay the framework's.
  bool contractions = false;
  /// Even so, convolutions of single channels become folds of windows.
  bool depthwise = false;
  /// Stages that add in place have code; without, sums to where an index says
  /// are folds over all its entries.
  bool adds_in_place = false;
  /// float16 and bfloat16 are read and written, and computed in as float32.
  bool halves = false;
  /// What stands between two operators is not rounded to its type, and
  /// products may be fused into sums across them: faster, and not what the
  /// framework computes. Else each operator's result is rounded.
  bool free_rounding = false;
  /// Eager's results, with which kernels are compared, are a GPU's: it rounds
  /// other scalars than on a processor (promotion.hpp).
  bool eager_on_gpu = false;
  /// The graph grows (compiler/graph/growth.hpp): nothing is decided by how
  /// long a row is, and how many elements were folded is kept as a count.
  bool for_sizes = false;
  /// Calls whose value is computed once and kept (keep_values.hpp).
  std::set<std::string> keep{};
};

}  // namespace weft
