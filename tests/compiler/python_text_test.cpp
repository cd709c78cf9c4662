#include "compiler/text/python_text.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace weft {
namespace {

TEST_CASE("arguments read as Python") {
  CHECK(python_value(Arg{}) == "None");
  CHECK(python_value(Arg{true}) == "True");
  CHECK(python_value(Arg{std::int64_t{-3}}) == "-3");
  CHECK(python_value(Arg{NodeRef{"x0"}}) == "x0");
  CHECK(python_value(Arg{Symbol{"dtype", "int64"}}) == "torch.int64");
  CHECK(python_value(Arg{Symbol{"device", "cpu"}}) == "torch.device(\"cpu\")");
  CHECK(python_value(Arg{Symbol{"memory_format", "channels_last"}}) ==
        "torch.channels_last");
}

TEST_CASE("a float stays a float, to the last bit") {
  CHECK(python_value(Arg{1.0}) == "1.0");
  CHECK(python_value(Arg{1e-05}) == "1e-05");
  CHECK(python_value(Arg{0.1}) == "0.1");
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(python_value(Arg{-inf}) == "float('-inf')");
}

TEST_CASE("lists nest") {
  Arg::List inner;
  inner.push_back(Arg{std::int64_t{1}});
  Arg::List outer;
  outer.push_back(Arg{inner});
  outer.push_back(Arg{});
  CHECK(python_value(Arg{outer}) == "[[1], None]");
}

TEST_CASE("wide precision widens floating dtypes only") {
  const auto wide = [](const char* name) {
    return python_value(Arg{Symbol{"dtype", name}}, Precision::wide);
  };
  CHECK(wide("float32") == "torch.float64");
  CHECK(wide("bfloat16") == "torch.float64");
  CHECK(wide("int32") == "torch.int32");
}

TEST_CASE("a string cannot break out of its quotes") {
  CHECK(python_string("a\"b\\c\nd\x01") == "\"a\\\"b\\\\c\\nd\\x01\"");
}

TEST_CASE("a text block is raw where it can be") {
  CHECK(python_text_block("int a = '\\n';\n") == "r'''int a = '\\n';\n'''");
  CHECK(python_text_block("a'''b") == "\"a'''b\"");
  CHECK(python_text_block("ends in \\") == "\"ends in \\\\\"");
}

TEST_CASE("a tuple of one has its comma") {
  CHECK(python_tuple({}) == "()");
  CHECK(python_tuple({2}) == "(2,)");
  CHECK(python_tuple({2, 3}) == "(2, 3)");
}

}  // namespace
}  // namespace weft
