// Prints index and scalar expressions as Triton.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/lower.hpp"
#include "compiler/schedule.hpp"

namespace weft {

/// "tl.float32"; and "torch.float32".
std::string triton_type(DType dtype);
std::string torch_type(DType dtype);

/// How an index is written where loop variable i stands in `names` by its id.
std::string triton_index(const Index& index,
                         const std::map<int, std::string>& names);

/// 0.5 in plain Triton; other types as a tensor of one element.
std::string triton_constant(const Scalar& node);

/// What expressions are printed with. Names are of tensors of two dimensions
/// that broadcast: points × inner elements.
struct TritonScope {
  const Program* program = nullptr;
  std::map<int, std::string> variables;  ///< loop variable's id to its text
  std::map<int, std::string> results;    ///< results at hand, by buffer
  std::map<ExprId, std::string> names;   ///< expressions printed already
  /// The masks that a load needs which uses those variables.
  std::function<std::string(const std::set<int>&)> mask;
  std::set<std::string>* helpers = nullptr;
};

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
