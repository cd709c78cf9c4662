
// --- Reducers: a vector of running values, one a lane.
template <class V>
INLINE mask unordered(V value) {
  if constexpr (is_real<element<V>>)
    return narrow(value != value);
  else
    return mask{};
}
template <class V>
INLINE V lowest() {
  using L = std::numeric_limits<element<V>>;
  return splat<element<V>>(L::has_infinity ? -L::infinity() : L::lowest());
}
template <class V>
INLINE V highest() {
  using L = std::numeric_limits<element<V>>;
  return splat<element<V>>(L::has_infinity ? L::infinity() : L::max());
}
// A NaN on either side is the result, as in eager. Of equal numbers the first
// is: eager's relu and clamp keep the sign of a zero.
// The processor's own give the second operand if one is NaN or both are equal.
#define EXTREME_OF_TWO(name, compared, intrinsic)                         \
  template <class V>                                                      \
  INLINE V name(V a, V b) {                                               \
    if constexpr (std::is_same_v<V, f32v> && W == kRegisterFloats) {      \
      return select(unordered(b), b, (V)intrinsic((Floats)b, (Floats)a)); \
    } else {                                                              \
      return select(narrow(a compared b) | unordered(a), a, b);           \
    }                                                                     \
  }
#if defined(__AVX512F__)
constexpr int kRegisterFloats = 16;
using Floats = __m512;
EXTREME_OF_TWO(maximum, >=, _mm512_max_ps)
EXTREME_OF_TWO(minimum, <=, _mm512_min_ps)
#elif defined(__AVX__)
constexpr int kRegisterFloats = 8;
using Floats = __m256;
EXTREME_OF_TWO(maximum, >=, _mm256_max_ps)
EXTREME_OF_TWO(minimum, <=, _mm256_min_ps)
#else
constexpr int kRegisterFloats = 0;
using Floats = f32v;
INLINE f32v no_intrinsic(f32v a, f32v) { return a; }
EXTREME_OF_TWO(maximum, >=, no_intrinsic)
EXTREME_OF_TWO(minimum, <=, no_intrinsic)
#endif
template <class V, class Op>
INLINE element<V> across(V value, Op op) {
  for (int half = W / 2; half > 0; half /= 2) {
    V other = value;
    for (int l = 0; l < half; ++l) other[l] = value[l + half];
    value = op(value, other);
  }
  return value[0];
}

#define REDUCER(Name, start, joined)                                           \
  template <class V>                                                           \
  struct Name {                                                                \
    V value = start;                                                           \
    static INLINE V join(V a, V b) { return joined; }                          \
    template <class L>                                                         \
    INLINE void step(L lanes, V next) {                                        \
      value = keep(lanes, join(value, next), value);                           \
    }                                                                          \
    INLINE void merge(const Name& other) { value = join(value, other.value); } \
    INLINE element<V> total() const { return across(value, join); }            \
  };
REDUCER(Sum, V{}, a + b)
REDUCER(Product, splat<element<V>>(1), a* b)
REDUCER(Max, lowest<V>(), maximum(a, b))
REDUCER(Min, highest<V>(), minimum(a, b))
REDUCER(Any, V{}, a | b)
REDUCER(All, ~V{}, a& b)

// What the pieces of a long fold are merged into. A sum keeps apart what each
// addition rounds away, as a float has no room for it once the sum is large.
template <class R>
struct Total : R {
  INLINE R folded() const { return *this; }
};
template <class V>
struct Total<Sum<V>> : Sum<V> {
  V lost = {};
  INLINE void merge(const Sum<V>& other) {
    const V sum = this->value + other.value;
    const V added = sum - this->value;
    lost += (this->value - (sum - added)) + (other.value - added);
    this->value = sum;
  }
  INLINE Sum<V> folded() const {
    // Infinite sums lose what is no number.
    return {select(unordered(lost), this->value, this->value + lost)};
  }
};

// The extreme and its position; the first on ties, the first NaN before all.
template <class V, bool kMax>
struct Extreme {
  V value = kMax ? lowest<V>() : highest<V>();
  i32v position = {};
  static INLINE mask better(V a, V b) {
    const mask beats = kMax ? narrow(a > b) : narrow(a < b);
    return beats | (unordered(a) & ~unordered(b));
  }
  template <class L>
  INLINE void step(L lanes, V next, i64v where) {
    const mask wins = keep(lanes, better(next, value), mask{});
    value = select(wins, next, value);
    position = select(wins, convert<i32v>(where), position);
  }
  INLINE void merge(const Extreme& other) {
    const mask level = narrow(other.value == value) |
                       (unordered(other.value) & unordered(value));
    const mask wins =
        better(other.value, value) | (level & (other.position < position));
    value = select(wins, other.value, value);
    position = select(wins, other.position, position);
  }
  INLINE Extreme spread() const {
    Extreme all = *this;
    for (int l = 1; l < W; ++l) {
      Extreme one;
      for (int k = 0; k < W; ++k) {
        one.value[k] = value[l];
        one.position[k] = position[l];
      }
      all.merge(one);
    }
    return all;
  }
  INLINE element<V> total() const { return spread().value[0]; }
  INLINE int64_t where() const { return spread().position[0]; }
};
// --- Scans. What is carried has more digits than the values, as the framework
// has it: each of very many additions rounds.
template <class V>
using carried = std::conditional_t<is_real<element<V>>, double, int64_t>;
template <class V>
INLINE V moved_up(V value, int by, element<V> filler) {
  V result;
#pragma GCC unroll 16
  for (int l = 0; l < W; ++l) result[l] = l < by ? filler : value[l - by];
  return result;
}
#define RUNNING(Name, start, op)                                  \
  template <class V>                                              \
  struct Name {                                                   \
    using Carry = vec<carried<V>>;                                \
    Carry carry = splat<carried<V>>(start);                       \
    INLINE V down(V next) {                                       \
      carry = carry op convert<Carry>(next);                      \
      return convert<V>(carry);                                   \
    }                                                             \
    template <class L>                                            \
    INLINE V along(L lanes, V next) {                             \
      const V none = splat<element<V>>(start);                    \
      Carry run = convert<Carry>(keep(lanes, next, none));        \
      _Pragma("GCC unroll 4") for (int by = 1; by < W; by *= 2) { \
        run = run op moved_up(run, by, carried<V>(start));        \
      }                                                           \
      run = carry op run;                                         \
      carry = splat<carried<V>>(run[W - 1]);                      \
      return convert<V>(run);                                     \
    }                                                             \
  };
RUNNING(RunningSum, 0, +)
RUNNING(RunningProduct, 1, *)

template <class V>
using ArgMax = Extreme<V, true>;
template <class V>
using ArgMin = Extreme<V, false>;
