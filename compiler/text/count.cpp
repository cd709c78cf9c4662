#include "compiler/text/count.hpp"

#include <utility>

#include "compiler/text/number_text.hpp"

namespace weft {

Count::Count(std::int64_t number)
    : Count(number, weft::text(number), number == 1, false) {}

Count::Count(std::int64_t value, std::string text, bool is_one,
             bool is_symbolic)
    : value(value),
      text(std::move(text)),
      is_one(is_one),
      is_symbolic(is_symbolic) {}

Count parts_of(std::int64_t extent, std::int64_t size, bool is_symbolic,
               std::string_view division) {
  const std::int64_t value = (extent + size - 1) / size;
  if (!is_symbolic || size == 1 || extent == 1) {
    return {value, text(value), value == 1, is_symbolic};
  }
  return {value,
          "((" + text(extent) + " + " + text(size - 1) + ") " +
              std::string(division) + " " + text(size) + ")",
          false, true};
}

Count product(const Count& a, const Count& b) {
  if (a.is_one) return b;
  if (b.is_one) return a;
  if (!a.is_symbolic && !b.is_symbolic) return a.value * b.value;
  return {a.value * b.value, "(" + a.text + " * " + b.text + ")", false, true};
}

}  // namespace weft
