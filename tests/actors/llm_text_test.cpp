#include <doctest/doctest.h>

#include "actors/llm/text.hpp"

namespace weft {
namespace {

const std::string kFunction = "def kernel_function(x):\n    return x\n";

TEST_CASE(
    "the block that defines kernel_function is taken, the last of several") {
  const auto current =
      python_file_in("Sure:\n```python\n" + kFunction + "```\nDone.");
  REQUIRE(current);
  CHECK(*current == kFunction);
  const auto two =
      python_file_in("```\n" + kFunction + "```\nor better\n~~~py\n" +
                     kFunction + "# 2\n~~~\n```sh\nls\n```");
  REQUIRE(two);
  CHECK(*two == kFunction + "# 2\n");
}

TEST_CASE("an answer without a fence is the file, if it can be one") {
  CHECK(python_file_in(kFunction));
  const auto none = python_file_in("I can't do that.");
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("no code block") != std::string::npos);
}

TEST_CASE("fences within the file do not end it") {
  const std::string file = "\"\"\"A kernel:\n```\nx\n```\n\"\"\"\n" + kFunction;
  const auto longer = python_file_in("````python\n" + file + "````\n");
  REQUIRE(longer);
  CHECK(*longer == file);
  const auto same = python_file_in("```python\n" + file + "```\n");
  REQUIRE(same);
  CHECK(*same == file);
}

TEST_CASE("what breaks off is said") {
  const auto cut = python_file_in("```python\n" + kFunction);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message.find("breaks off") != std::string::npos);
  CHECK_FALSE(python_file_in("```python\nx = 1\n```"));
}

TEST_CASE("near-duplicates differ in spaces and comments only") {
  const auto key = near_duplicate_key(kFunction);
  CHECK(key == near_duplicate_key("# hello\n\ndef kernel_function( x ):\n"
                                  "    return  x  # it\n"));
  CHECK(key != near_duplicate_key("def kernel_function(x):\n    return y\n"));
}

}  // namespace
}  // namespace weft
