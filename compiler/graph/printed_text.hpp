// Texts of a captured graph that are printed into Python source as they are. A
// graph may come from a file that somebody else wrote: such a text must not be
// able to hold any other code.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

/// A name in ASCII.
bool is_identifier(std::string_view text);

/// "aten.add.Tensor".
bool is_operator_name(std::string_view text);

/// An argument of forward(), or a part of one: x, xs[0], d['a'].b.
bool is_input_path(std::string_view text);

/// A dtype, device, layout or memory format without "torch.": float32, cuda:0.
bool is_symbol_text(std::string_view text);

/// The expression that builds what forward() returns out of `outputs` values:
/// "({0}, [{1}], None)". Literals, containers, torch.return_types and named
/// tuples of the problem file are allowed; braces of a dict are doubled.
bool is_output_template(std::string_view text, std::size_t outputs);

}  // namespace weft
