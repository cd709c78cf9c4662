// Names the programs that make things here. What one of them made is not taken
// for what another, or another version of it, would make.
#pragma once

#include <string>

#include "runtime/machine/installation.hpp"

namespace weft {

/// The Python, its packages that matter, and weft's Python side, to the byte.
std::string python_identity(const Installation& installation);

/// The C++ compiler's file and version, and the processor it builds for: this.
std::string compiler_identity();

}  // namespace weft
