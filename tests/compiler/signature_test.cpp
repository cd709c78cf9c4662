#include "compiler/fusion/signature.hpp"

#include <doctest/doctest.h>

#include "compiler/compose/compose.hpp"
#include "compiler/compose/reference_of_signature.hpp"
#include "tests/compiler/graph_builder.hpp"

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

TEST_CASE("a signature alone gives the reference that its graph gives") {
  const TensorType rows = dense({4, 8});
  GraphBuilder b;
  b.input("x0", rows).input("x1", dense({}, DType::boolean));
  b.tuple("t0", "native_layer_norm", {"x0"}, {rows, dense({4, 1})});
  b.call("t1", "getitem", {"t0"}, rows, {Arg{std::int64_t{0}}});
  b.graph.nodes.back().target = "getitem";
  b.call("t2", "where.self", {"x1", "t1", "x0"}, rows);
  b.call("t3", "mm", {"t2", "t2"}, dense({4, 4}));
  b.graph.nodes.back().tf32 = true;
  b.outputs({"t2", "t3"});
  const Subgraph subgraph{"sg_1", signature_of(b.graph), "norm", b.graph};
  const auto reference = reference_of_signature(
      subgraph.signature,
      "Reference of sg_1 (norm): ATen calls as captured from the model.");
  REQUIRE(reference.has_value());
  CHECK(*reference == reference_source(subgraph));
}

TEST_CASE("what is no signature gives no reference") {
  for (const char* text :
       {"", "x0: float32[2]{1}\n", "return t0\n", "x0: words\nreturn x0\n",
        "x0: float32[2]{1}\nimport os\nreturn x0\n",
        "x0: float32[2]{1}\nreturn x1\n"}) {
    CAPTURE(text);
    CHECK_FALSE(reference_of_signature(text, "t"));
  }
}

}  // namespace
}  // namespace weft
