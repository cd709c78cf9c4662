// Prints index and scalar expressions as Triton.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/loops/schedule.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft {

/// "tl.float32"; and "torch.float32".
std::string triton_type(DType dtype);
std::string torch_type(DType dtype);

/// Along which dimension of a tile a loop variable runs.
enum class Axis {
  none,  ///< a number, the same for the whole tile
  step,  ///< a tensor of one element, which a loop counts
  rows,
  columns
};

/// How a loop variable is written, and the mask of where it is in range.
struct TritonVariable {
  std::string name;
  Axis axis = Axis::none;
  std::string mask;  ///< empty: everywhere
};

using TritonVariables = std::map<int, TritonVariable>;

/// An index in those variables. Terms along one dimension stand together, so
/// that they are added up before they are spread over the whole tile.
std::string triton_index(const Index& index, const TritonVariables& variables);

/// A pointer to that element of a tensor. What is a number is added first: a
/// compiler then knows what is added for each element to be small, and takes
/// addresses that differ by a constant from one register.
std::string triton_address(const std::string& tensor, const Index& index,
                           const TritonVariables& variables);

/// Whether triton_constant gives a number of Python's instead of a tensor.
bool is_plain_number(const Scalar& node);

/// 0.5 in plain Triton; other types, and -0.0, as a tensor of one element.
std::string triton_constant(const Scalar& node);

/// What expressions are printed with. Names are of tensors of two dimensions
/// that broadcast.
struct TritonScope {
  const Program* program = nullptr;
  TritonVariables variables;            ///< by the loop variable's id
  std::map<int, std::string> results;   ///< results at hand, by buffer
  std::map<ExprId, std::string> names;  ///< expressions printed already
  std::set<std::string>* helpers = nullptr;
};

/// The masks of those variables, joined; empty where none has one.
std::string triton_mask(const TritonVariables& variables,
                        const std::set<int>& used);

/// A name, or a constant's own text.
std::string triton_operand(const TritonScope& scope, ExprId id);

/// The text of one expression whose arguments have names; throws Unsupported
/// where Triton cannot say it.
std::string triton_expression(const TritonScope& scope, ExprId id);

/// The loop variables that the expression itself mentions, arguments left out.
std::set<int> own_variables(const Scalar& node);

/// All that it depends on.
std::set<int> all_variables(const ScalarArena& arena, ExprId id);

}  // namespace weft
