// Prints scalar expressions as CUDA C++, one element at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/loops/program.hpp"

namespace weft {

/// "float"; "bool" for truth values.
std::string cuda_type(DType dtype);

/// What an expression's text depends on.
struct CudaScope {
  const Program* program = nullptr;
  std::map<int, std::string> variables;   ///< text of each loop variable
  std::map<int, std::string> results;     ///< text of results that are at hand
  std::map<ExprId, std::string> names;    ///< expressions printed already
  std::map<ExprId, std::string> at_hand;  ///< what a load finds in registers
  std::set<std::string>* helpers = nullptr;
  std::string index_type = "int";  ///< of positions; "long long" where needed
};

std::string cuda_index(const Index& index,
                       const std::map<int, std::string>& variables);

/// The text of one expression whose arguments have names. Throws Unsupported.
std::string cuda_expression(const CudaScope& scope, ExprId id);

/// A name, or a constant's own text.
std::string cuda_operand(const CudaScope& scope, ExprId id);

/// The type of the C++ variable that holds it.
std::string cuda_variable_type(const CudaScope& scope, ExprId id);

/// `index` as the variable `lane` counts up by one: 0 where nothing changes, 1
/// where neighbours lie beside each other, -1 for anything else. The variable
/// begins at a multiple of `lanes` and takes that many steps.
int step_along(const Index& index, int lane, std::int64_t vector_width);

/// Whether the index is a multiple of `lanes` where the variable is.
bool is_aligned(const Index& index, int lane, std::int64_t vector_width);

}  // namespace weft
