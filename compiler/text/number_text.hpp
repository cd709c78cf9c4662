// Whole numbers in generated code.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

inline std::string text(std::int64_t number) { return std::to_string(number); }

}  // namespace weft
