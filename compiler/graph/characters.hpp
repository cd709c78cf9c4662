// What single characters of a text are, in any locale.
#pragma once

namespace weft {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace weft
