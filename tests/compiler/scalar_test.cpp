#include "compiler/loops/scalar.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "compiler/loops/scalar_functions.hpp"

using namespace weft;

namespace {

const LoopVar kRow{0, 8};

ExprId positive(ScalarArena& arena, const Index& index) {
  return arena.call("ge", DType::boolean,
                    {arena.position(index), arena.integer(DType::i64, 0)});
}

}  // namespace

TEST_CASE("A load and the same load under a guard are two expressions") {
  ScalarArena arena;
  const Index before = Index(kRow) - 1;
  const ExprId bare = arena.load(DType::f32, 0, {before});
  const ExprId guarded = arena.guarded_load(bare, positive(arena, before));
  CHECK(bare != guarded);
  CHECK(arena[bare].guard() == -1);
  CHECK(arena[guarded].guard() == positive(arena, before));
  CHECK(arena.guarded_load(bare, positive(arena, before)) == guarded);
}

TEST_CASE("A fraction that was made whole is no count") {
  ScalarArena arena;
  const ExprId whole = arena.cast(DType::i64, arena.constant(DType::f32, 2.5));
  const ExprId back = arena.cast(DType::f32, whole);
  CHECK(arena[back].op == ScalarOp::cast);
  CHECK(arena[back].arguments[0] == whole);
}

TEST_CASE("A whole number is rounded to a float once") {
  ScalarArena arena;
  const std::int64_t above_half =
      (std::int64_t{1} << 53) + (std::int64_t{1} << 29) + 1;
  const ExprId given = arena.integer(DType::i64, above_half);
  CHECK(arena[arena.cast(DType::f32, given)].number == 0x1p53 + 0x1p30);
  CHECK(arena[arena.cast(DType::f64, given)].number == 0x1p53 + 0x1p29);
}

TEST_CASE("Guarding an expression guards every load under it") {
  ScalarArena arena;
  const ExprId a = arena.load(DType::f32, 0, {Index(kRow)});
  const ExprId b = arena.load(DType::f32, 1, {Index(kRow)});
  const ExprId sum = arena.call("add", DType::f32, {a, b});
  const ExprId guard = positive(arena, Index(kRow) - 2);
  const ExprId guarded = arena.guarded(sum, guard);
  for (const ExprId load : arena[guarded].arguments) {
    CHECK(arena[load].guard() == guard);
  }
}

TEST_CASE("A second guard holds together with the first") {
  ScalarArena arena;
  const ExprId bare = arena.load(DType::f32, 0, {Index(kRow)});
  const ExprId first = positive(arena, Index(kRow) - 1);
  const ExprId second = positive(arena, Index(kRow) - 2);
  const ExprId once = arena.guarded_load(bare, first);
  CHECK(arena.guarded_load(once, first) == once);
  const Scalar both = arena[arena.guarded_load(once, second)];
  CHECK(arena[both.guard()].function == "logical_and");
}

TEST_CASE("A guard's variables are replaced with those of its load") {
  ScalarArena arena;
  const LoopVar other{1, 8};
  const auto build = [&](LoopVar v) {
    return arena.guarded_load(arena.load(DType::f32, 0, {Index(v)}),
                              positive(arena, Index(v) - 1));
  };
  const ExprId of_row = build(kRow);
  CHECK(arena.substitute(of_row, {{kRow.id, Index(other)}}) == build(other));
}

TEST_CASE("An indirect load needs its place before it") {
  ScalarArena arena;
  const ExprId place = arena.load(DType::i64, 1, {Index(kRow)});
  const ExprId guard =
      arena.call("ge", DType::boolean, {place, arena.integer(DType::i64, 0)});
  const ExprId load =
      arena.indirect_load(DType::f32, 0, Index(0), guard, place);
  CHECK(arena[load].indirect_offset() == place);
  CHECK(arena[load].guard() == guard);
  const auto order = arena.reachable({load});
  CHECK(order.back() == load);
  CHECK(order.size() == 4);
}

TEST_CASE("A half's constants are those that it has") {
  ScalarArena arena;
  const auto through = [&](DType half, double number) {
    const ExprId narrow = arena.cast(half, arena.constant(DType::f32, number));
    return arena[arena.cast(DType::f32, narrow)].number;
  };
  CHECK(through(DType::f16, 0.1) == 0.0999755859375);
  CHECK(through(DType::bf16, 0.1) == 0.10009765625);
  CHECK(through(DType::f16, 2049) == 2048);  // ties to even
  CHECK(through(DType::f16, 65519) == 65504);
  CHECK(through(DType::f16, 1e5) == INFINITY);
  CHECK(through(DType::bf16, -1e39) == -INFINITY);
  CHECK(through(DType::f16, 1e-7) == 0x1p-23);
  CHECK(through(DType::f16, 1e-9) == 0);
  CHECK(through(DType::bf16, 0x1p-133) == 0x1p-133);
}

TEST_CASE("What was a half before it was widened is that half again") {
  ScalarArena arena;
  const ExprId half = arena.load(DType::f16, 0, {Index(kRow)});
  const ExprId wide = arena.cast(DType::f32, half);
  CHECK(wide != half);
  CHECK(arena.cast(DType::f16, wide) == half);
  CHECK(arena.cast(DType::bf16, wide) != half);
}

TEST_CASE("ScalarFunctions_SquareRootsOfFloat64HaveTritonCode") {
  // Found by the fuzzer: Triton's sqrt_rn takes float32 only.
  const auto root = [](const char* function, DType dtype) {
    return spelled(Language::triton, function, dtype, {"x"}).value_or("");
  };
  CHECK(root("sqrt", DType::f32) == "tl.sqrt_rn(x)");
  CHECK(root("sqrt", DType::f64) == "tl.sqrt(x)");
  CHECK(root("rsqrt", DType::f64) == "1.0 / tl.sqrt(x)");
}
