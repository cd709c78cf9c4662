// The target of Python files with a kernel_function of tensors: what language
// models write. The compiler generates none.
#pragma once

#include "compiler/compose/target.hpp"

namespace weft {

inline constexpr std::string_view kPythonTarget = "python";

Target python_target();

}  // namespace weft
