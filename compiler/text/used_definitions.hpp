// C++ source without the definitions that nothing uses, for a reader: kernels
// carry a prelude of which each uses a part.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The text without the functions, types and constants of namespaces that no
/// remaining text names, and without unused macros. A macro's call at the
/// level of definitions defines its first argument. Other preprocessor lines
/// and whatever is not recognised stay. A definition stays if anything that
/// stays has a word of its name, so that overloads and specialisations stay
/// together. No parser: it knows comments, strings, brackets and semicolons.
std::string used_definitions(std::string_view cpp);

}  // namespace weft
