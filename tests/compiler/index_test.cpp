#include "compiler/loops/index.hpp"

#include <doctest/doctest.h>

using weft::Index;
using weft::LoopVar;

namespace {
const LoopVar row{0, 6};
const LoopVar column{1, 8};
const LoopVar flat{2, 48};
}  // namespace

TEST_CASE("A quotient of whole multiples needs no division") {
  const Index index = Index(row) * 8 + Index(column);
  CHECK(floor_div(index, 8) == Index(row));
  CHECK(floor_mod(index, 8) == Index(column));
}

TEST_CASE("A quotient keeps only the part that can reach it") {
  const Index index = Index(row) * 8 + Index(column);
  CHECK(floor_div(index, 16) == floor_div(Index(row), 2));
  CHECK(floor_mod(index, 16) == floor_mod(Index(row), 2) * 8 + Index(column));
}

TEST_CASE("Digits taken apart and put together are the number again") {
  const Index high = floor_div(Index(flat), 8);
  const Index low = floor_mod(Index(flat), 8);
  CHECK(high * 8 + low == Index(flat));
  CHECK(high * 24 + low * 3 == Index(flat) * 3);
}

TEST_CASE("Three digits are put together too") {
  const Index a = floor_div(Index(flat), 16);
  const Index b = floor_mod(floor_div(Index(flat), 4), 4);
  const Index c = floor_mod(Index(flat), 4);
  CHECK(a * 16 + b * 4 + c == Index(flat));
}

TEST_CASE("A quotient of a quotient is one quotient") {
  CHECK(floor_div(floor_div(Index(flat), 4), 2) == floor_div(Index(flat), 8));
}

TEST_CASE("A quotient of what is always smaller is zero") {
  CHECK(floor_div(Index(row), 6) == Index(0));
  CHECK(floor_mod(Index(row), 6) == Index(row));
}

TEST_CASE("A variable of extent one is the constant zero") {
  CHECK(Index(LoopVar{9, 1}) == Index(0));
}

TEST_CASE("Replacing a variable simplifies what held it") {
  const Index index = floor_div(Index(flat), 8);
  const Index replaced =
      index.substitute({{2, Index(row) * 8 + Index(column)}});
  CHECK(replaced == Index(row));
}

TEST_CASE("Ranges bound what an index can be") {
  const Index index = Index(row) * 8 + Index(column) + 3;
  CHECK(index.range() == std::pair<std::int64_t, std::int64_t>(3, 50));
  const Index back = Index(5) - Index(row);
  CHECK(back.range() == std::pair<std::int64_t, std::int64_t>(0, 5));
}

TEST_CASE("Every simplification keeps the value") {
  for (const std::int64_t divisor : {2, 3, 4, 6, 8, 12, 16, 24, 48}) {
    const Index index = Index(row) * 8 + Index(column);
    const Index quotient = floor_div(index, divisor);
    const Index rest = floor_mod(index, divisor);
    for (int r = 0; r < 6; ++r) {
      for (int c = 0; c < 8; ++c) {
        const weft::IndexMap at = {{0, Index(r)}, {1, Index(c)}};
        CHECK(quotient.substitute(at) == Index((r * 8 + c) / divisor));
        CHECK(rest.substitute(at) == Index((r * 8 + c) % divisor));
      }
    }
  }
}
