// What the functions of scalar expressions are called in the languages that
// kernels are written in: a row a function, a column a language. What is more
// than an expression is a function of the language's own (its prelude or its
// helpers).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/loops/scalar.hpp"

namespace weft {

enum class Language { cpu, triton, cuda };

/// The expression of that function on elements of that type, with those
/// arguments in it; nothing where the language has none.
std::optional<std::string> spelled(Language language, std::string_view function,
                                   DType dtype,
                                   const std::vector<std::string>& arguments);

}  // namespace weft
