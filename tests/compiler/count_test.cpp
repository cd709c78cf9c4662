#include "compiler/text/count.hpp"

#include <doctest/doctest.h>

namespace weft {

TEST_CASE("pieces of what grows are a quotient, of what does not a number") {
  CHECK(parts_of(37, 16, false, "//").text == "3");
  CHECK(parts_of(37, 16, true, "//").text == "((37 + 15) // 16)");
  CHECK(parts_of(37, 16, true, "/").text == "((37 + 15) / 16)");
  CHECK(parts_of(37, 16, true, "//").value == 3);
}

TEST_CASE("what has one piece now may have several at another size") {
  CHECK(parts_of(37, 64, false, "//").is_one);
  CHECK_FALSE(parts_of(37, 64, true, "//").is_one);
}

TEST_CASE("a product with what grows is printed as one") {
  const Count symbolic = parts_of(37, 16, true, "//");
  CHECK(product(3, 5).text == "15");
  CHECK(product(symbolic, 1).text == symbolic.text);
  CHECK(product(5, symbolic).text == "(5 * ((37 + 15) // 16))");
}

}  // namespace weft
