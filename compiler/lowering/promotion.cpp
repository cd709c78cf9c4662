#include "compiler/lowering/promotion.hpp"

#include <optional>

#include "compiler/loops/scalar.hpp"

namespace weft {
namespace {

bool is_signed_integer(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16 ||
         dtype == DType::i8;
}

// torch.promote_types().
DType promoted_pair(DType a, DType b) {
  if (a == b || b == DType::boolean) return a;
  if (a == DType::boolean) return b;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (element_bytes(a) == element_bytes(b)) return DType::f32;
    return element_bytes(a) > element_bytes(b) ? a : b;
  }
  // No signed byte holds all unsigned ones.
  if (is_signed_integer(a) != is_signed_integer(b) &&
      element_bytes(a) == element_bytes(b)) {
    return DType::i16;
  }
  return element_bytes(a) > element_bytes(b) ? a : b;
}

using KnownType = std::optional<DType>;

KnownType joined_types(KnownType a, KnownType b) {
  if (!a || !b) return a ? a : b;
  return promoted_pair(*a, *b);
}

// The higher kind's type, unless the lower kind is of a higher category.
KnownType combined_types(KnownType higher, KnownType lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_float(*higher)) return higher;
  const bool is_lower_category = *higher == DType::boolean || is_float(*lower);
  return is_lower_category ? joined_types(higher, lower) : higher;
}

}  // namespace

DType promoted_type(const std::vector<OperandType>& operands) {
  KnownType tensors;
  KnownType scalars;
  KnownType numbers;
  for (const OperandType& operand : operands) {
    if (operand.kind == OperandKind::tensor) {
      tensors = joined_types(tensors, operand.dtype);
    } else if (operand.kind == OperandKind::scalar_tensor) {
      scalars = joined_types(scalars, operand.dtype);
    } else {
      // PyTorch's default type.
      const DType dtype = is_float(operand.dtype) ? DType::f32 : operand.dtype;
      numbers = joined_types(numbers, dtype);
    }
  }
  return combined_types(tensors, combined_types(scalars, numbers))
      .value_or(DType::f32);
}

bool keeps_digits(ScalarOperands scalars, OperandKind kind,
                  std::size_t position, bool on_gpu) {
  if (kind == OperandKind::tensor) return false;
  const bool is_number = kind == OperandKind::number;
  switch (scalars) {
    case ScalarOperands::converted:
      return false;
    case ScalarOperands::added:
      return on_gpu && is_number;
    case ScalarOperands::multiplied:
      return on_gpu ? is_number : position == 1;
    case ScalarOperands::parameter:
      return true;
    case ScalarOperands::threshold:
      return !on_gpu;
  }
  return false;
}

bool fits_halves(DType from) {
  return from == DType::boolean || from == DType::i8 || from == DType::u8;
}

}  // namespace weft
