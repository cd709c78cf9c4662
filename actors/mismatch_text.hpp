// An element of a wrong result, in words.
#pragma once

#include <string>

#include "messages/effects.hpp"

namespace weft {

/// "y[3, 4] is 2, expected 5, error 0.6".
std::string mismatch_line(const Mismatch& mismatch);

}  // namespace weft
