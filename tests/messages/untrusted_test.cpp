#include "messages/untrusted.hpp"

#include <doctest/doctest.h>

#include <string>

namespace weft {
namespace {

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_CASE("JSON that nests deeper than weft's own is not read") {
  CHECK(is_shallow_json("{\"a\": [1, {\"b\": []}]}"));
  CHECK(is_shallow_json(repeated("[", 256)));
  CHECK_FALSE(is_shallow_json(repeated("[", 257)));
  CHECK_FALSE(is_shallow_json(repeated("{\"a\":", 1'000'000)));
  CHECK(is_shallow_json("[" + repeated("[],", 10'000) + "0]"));
}

TEST_CASE("brackets in texts of JSON nest nothing, and no text hides others") {
  const std::string brackets = repeated("[{", 1'000);
  CHECK(is_shallow_json("[\"" + brackets + "\\\"" + brackets + "\"]"));
  CHECK_FALSE(is_shallow_json("[\"\\\\\"," + brackets));
  CHECK_FALSE(is_shallow_json("[\"\\\"\"," + brackets));
}

TEST_CASE("msgpack that nests deeper than weft's own is not read") {
  CHECK(
      is_shallow_msgpack("\x82\xa1"
                         "a\x91\x01\xa1"
                         "b\xc0"));
  CHECK_FALSE(is_shallow_msgpack(repeated("\x91", 400'000) + "\xc0"));
  CHECK_FALSE(is_shallow_msgpack(repeated("\x81\xa1x", 400'000) + "\xc0"));
}

TEST_CASE("msgpack that announces more than it has is not read") {
  CHECK_FALSE(is_shallow_msgpack("\xdd\xff\xff\xff\xff"));
  CHECK_FALSE(is_shallow_msgpack("\xc6\xff\xff\xff\xff"));
  CHECK_FALSE(is_shallow_msgpack(""));
}

}  // namespace
}  // namespace weft
