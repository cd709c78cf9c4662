#include "compiler/fusion/signature.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

TEST_CASE("the hash is FNV-1a as published") {
  CHECK(fnv1a64("") == 0xcbf29ce484222325ULL);
  CHECK(fnv1a64("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(fnv1a64("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("two signatures of one hash get two ids, the same every time") {
  const Hash collides = [](std::string_view text) {
    return text.ends_with("#1") ? 2ULL : 1ULL;
  };
  std::map<std::string, std::string> taken;
  const std::string first = fresh_id("one", taken, collides);
  CHECK(first == "sg_000000000001");
  taken[first] = "one";
  CHECK(fresh_id("one", taken, collides) == first);
  CHECK(fresh_id("two", taken, collides) == "sg_000000000002");
}

TEST_CASE("a type reads dtype, shape, stride") {
  CHECK(type_text({DType::bf16, {2, 3}, {1, 2}}) == "bfloat16[2,3]{1,2}");
  CHECK(type_text({DType::boolean, {}, {}}) == "bool[]{}");
}

}  // namespace
}  // namespace weft
