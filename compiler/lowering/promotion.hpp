// PyTorch's type promotion: the type that an operator computes in, and which
// operands keep digits that this type has not.
#pragma once

#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

/// What an operand is. A tensor outweighs a tensor without dimensions, and that
/// outweighs a Python number, except where its type is of a lower category.
enum class OperandKind { number, scalar_tensor, tensor };

/// An operand as captured. A Python float is f64, an int i64, a bool boolean.
struct OperandType {
  DType dtype = DType::f32;
  OperandKind kind = OperandKind::tensor;
};

/// What torch.result_type() gives for these operands, of which there is at
/// least one. Precondition: none is complex.
DType promoted_type(const std::vector<OperandType>& operands);

/// Which scalars (numbers and tensors without dimensions) an operator in half
/// precision reads in float32, and does not round first. Measured with PyTorch
/// 2.13 on a processor and 2.11 on an H200.
enum class ScalarOperands {
  converted,   ///< none: all are converted to the common type
  added,       ///< add, sub: on a GPU, numbers
  multiplied,  ///< mul, div: numbers; on a processor, a scalar second operand
  parameter,   ///< a number that is no operand: all
  /// Of softshrink: on a processor, all.
  threshold,
};

/// Whether the operand at that position keeps its digits.
bool keeps_digits(ScalarOperands scalars, OperandKind kind,
                  std::size_t position, bool on_gpu);

/// Whether each value of that type is one of both halves as well.
bool fits_halves(DType from);

}  // namespace weft
