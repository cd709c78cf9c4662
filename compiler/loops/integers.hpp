// Arithmetic of extents.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weft {

/// a / b, rounded up; of positive numbers.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// a / b, rounded down.
inline std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// A power of two, at least as large.
inline std::int64_t power_of_two(std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, least))));
}

}  // namespace weft
