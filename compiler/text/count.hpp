// How many of something, in generated code. Of code for any size, what is
// common to several is found in its numbers (common_text.hpp); but a quotient
// that is rounded grows unevenly, so it is printed as what it is computed of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct Count {
  std::int64_t value = 1;
  std::string text = "1";
  bool is_one = true;        ///< at every size
  bool is_symbolic = false;  ///< it may be another number at another size

  Count() = default;
  /// The same at every size. Implicit: a number is a count.
  Count(std::int64_t number);  // NOLINT(google-explicit-constructor)
  Count(std::int64_t value, std::string text, bool is_one, bool is_symbolic);
};

/// The pieces of that size in an extent, the last one perhaps short. `division`
/// is how the language divides whole numbers: "/" or "//".
Count parts_of(std::int64_t extent, std::int64_t size, bool is_symbolic,
               std::string_view division);

Count product(const Count& a, const Count& b);

}  // namespace weft
