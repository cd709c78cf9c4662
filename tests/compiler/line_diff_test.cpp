#include "compiler/text/line_diff.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

TEST_CASE("a difference has the changes and the line before each") {
  CHECK(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nX\nd\ne\nf\ng\n", 10) ==
        "  b\n- c\n+ X\n…\n  f\n+ g\n");
  CHECK(line_diff("a\n", "a\n", 10).empty());
  CHECK(line_diff("", "a\n", 10) == "+ a\n");
  CHECK(line_diff("a\nb", "", 10) == "- a\n- b\n");
}

TEST_CASE("a difference is no longer than is asked for") {
  std::string before;
  for (int i = 0; i < 100; ++i) before += std::to_string(i) + "\n";
  const std::string text = line_diff(before, "", 3);
  CHECK(text == "- 0\n- 1\n- 2\n…\n");
}

}  // namespace
}  // namespace weft
