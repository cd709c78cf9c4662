// Graph arguments and calls as Python source.
#pragma once

#include <string>
#include <string_view>

#include "compiler/graph/graph.hpp"

namespace weft {

/// How floating dtypes are printed: as they are, or all as float64.
enum class Precision { captured, wide };

/// A Python expression of that value: `[1, None, torch.float32, x0]`.
std::string python_value(const Arg& arg,
                         Precision precision = Precision::captured);

/// The arguments between a call's parentheses.
std::string python_arguments(const Node& node,
                             Precision precision = Precision::captured);

/// The right-hand side of a call: `torch.ops.aten.add.Tensor(x0, 1)`.
std::string python_call(const Node& node,
                        Precision precision = Precision::captured);

/// A string literal, escaped to ASCII where needed.
std::string python_string(std::string_view text);

/// A literal of many lines: raw and readable where the text allows it.
std::string python_text_block(std::string_view text);

/// "(2, 3)", "(2,)", "()".
std::string python_tuple(const std::vector<std::int64_t>& numbers);

/// "a, b, c".
std::string joined_names(const std::vector<std::string>& names);

}  // namespace weft
