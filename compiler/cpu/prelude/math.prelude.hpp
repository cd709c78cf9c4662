
// --- Mathematics.
template <class V, class F>
INLINE V each(V v, F f) {
  for (int l = 0; l < W; ++l) v[l] = f(v[l]);
  return v;
}
template <class V, class F>
INLINE V each(V a, V b, F f) {
  for (int l = 0; l < W; ++l) a[l] = f(a[l], b[l]);
  return a;
}
#define LANE_BY_LANE(name, f)                          \
  template <class V>                                   \
  INLINE V name(V v) {                                 \
    return each(v, [](element<V> x) { return f(x); }); \
  }
LANE_BY_LANE(sin, std::sin)
LANE_BY_LANE(cos, std::cos)
LANE_BY_LANE(tan, std::tan)
LANE_BY_LANE(asin, std::asin)
LANE_BY_LANE(acos, std::acos)
LANE_BY_LANE(atan, std::atan)
LANE_BY_LANE(sinh, std::sinh)
LANE_BY_LANE(cosh, std::cosh)
LANE_BY_LANE(log2, std::log2)
LANE_BY_LANE(log10, std::log10)
LANE_BY_LANE(exp2, std::exp2)
LANE_BY_LANE(erfc, std::erfc)
LANE_BY_LANE(round, std::nearbyint)

template <class V>
INLINE V number(double x) {
  return splat<element<V>>(static_cast<element<V>>(x));
}
template <class V>
constexpr bool is_f32 = std::is_same_v<V, f32v>;

template <class V>
INLINE V abs(V v) {
  if constexpr (is_f32<V>)
    return (V)((i32v)v & 0x7fffffff);
  else if constexpr (is_real<element<V>>) {
    return (V)((i64v)v & 0x7fffffffffffffff);
  } else
    return select(narrow(v < 0), -v, v);
}
template <class V>
INLINE V sqrt(V v) {
#if defined(__AVX512F__)
  if constexpr (is_f32<V> && W == 16) return (V)_mm512_sqrt_ps((__m512)v);
#endif
  return each(v, [](element<V> x) { return std::sqrt(x); });
}
template <class V>
INLINE V rsqrt(V v) {
  return number<V>(1) / sqrt(v);
}
template <class V>
INLINE V reciprocal(V v) {
  return number<V>(1) / v;
}
template <class V>
INLINE V square(V v) {
  return mul(v, v);
}
template <class V>
INLINE V neg(V v) {
  return -v;
}
template <class V>
INLINE V floor(V v) {
#if defined(__AVX512F__)
  if constexpr (is_f32<V> && W == 16) {
    return (V)_mm512_roundscale_ps((__m512)v, 0x09);
  }
#endif
  return each(v, [](element<V> x) { return std::floor(x); });
}
template <class V>
INLINE V ceil(V v) {
  return -floor(-v);
}
template <class V>
INLINE V trunc(V v) {
  return select(narrow(v < 0), ceil(v), floor(v));
}
template <class V>
INLINE V sign(V v) {
  const V one = number<V>(1);
  const V up = select(narrow(v > 0), one, V{});
  return select(narrow(v < 0), -one, up);
}
template <class V>
INLINE V relu(V v) {
  return maximum(v, V{});
}
template <class V>
INLINE mask isnan(V v) {
  return unordered(v);
}
template <class V>
INLINE mask isinf(V v) {
  if constexpr (!is_real<element<V>>)
    return mask{};
  else
    return narrow(abs(v) == highest<V>());
}
template <class V>
INLINE V finite_or_zero(V v) {
  return select(isinf(v) | isnan(v), V{}, v);
}
template <class V>
INLINE V finite_or_zero_keep_nan(V v) {
  return select(isinf(v), V{}, v);
}
INLINE f32v two_to(i32v n) { return (f32v)((n + 127) << 23); }
// v · 2^n; `whole` is n as a float.
template <class V>
INLINE V scaled(V v, V whole, i32v n) {
#if defined(__AVX512F__)
  if constexpr (W == 16) return (V)_mm512_scalef_ps((__m512)v, (__m512)whole);
#endif
  const i32v half = n >> 1;
  return v * two_to(half) * two_to(n - half);
}
// e^x = 2^n · e^r with |r| <= ln(2) / 2; 2^n in two factors, for subnormals.
// What is less than all of them is not worked out: a processor takes 25 times
// as long for it.
INLINE f32v exp(f32v x) {
  const mask is_lost = narrow(x < -104.0f);
  x = select(x > 89.0f, number<f32v>(89), x);
  x = select(is_lost, f32v{}, x);
  const f32v shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
  const f32v whole = shifted - 0x1.8p+23f;
  f32v r = x - whole * 0x1.62e400p-1f;
  r = r - whole * 0x1.7f7d1cp-20f;
  f32v p = r * 0x1.6ac0b4p-10f + 0x1.126d26p-7f;
  p = p * r + 0x1.5558a8p-5f;
  p = p * r + 0x1.55540cp-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const f32v grown = scaled(p, whole, (i32v)shifted - 0x4b400000);
  return select(is_lost, f32v{}, grown);
}
INLINE f32v expm1(f32v x) {
  x = select(x > 89.0f, number<f32v>(89), x);
  x = select(x < -25.0f, number<f32v>(-25), x);
  const f32v shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
  const f32v whole = shifted - 0x1.8p+23f;
  f32v r = x - whole * 0x1.62e400p-1f;
  r = r - whole * 0x1.7f7d1cp-20f;
  f32v p = r * 0x1.a01a02p-13f + 0x1.6c16c2p-10f;
  p = p * r + 0x1.111112p-7f;
  p = p * r + 0x1.555556p-5f;
  p = p * r + 0x1.555556p-3f;
  p = p * r + 0.5f;
  p = p * r * r + r;
  const i32v n = (i32v)shifted - 0x4b400000;
  const i32v half = n >> 1;
  const f32v a = two_to(half);
  const f32v b = two_to(n - half);
  const f32v grown = p * a * b + (a * b - 1.0f);
  // a · b overflows one step before the result does.
  const f32v large = (p * a + a) * b;
  return select(x == 0.0f, x, select(n > 64, large, grown));  // -0 stays -0
}
// log(m · 2^e), m in [2/3, 4/3).
INLINE f32v log(f32v a) {
  const mask tiny = narrow(a < 0x1p-126f);
  const f32v x = select(tiny, a * 0x1p+23f, a);
  const i32v e = ((i32v)x - 0x3f2aaaab) & ~0x7fffff;
  const f32v m = (f32v)((i32v)x - e) - 1.0f;
  const f32v i =
      convert<f32v>(e) * 0x1p-23f + select(tiny, number<f32v>(-23), f32v{});
  const f32v s = m * m;
  f32v r = s * -0.130310059f + -0.121483512f;
  f32v t = s * 0.140869141f + 0.139814854f;
  r = r * s + -0.166846126f;
  t = t * s + 0.200120345f;
  r = r * s + -0.249996200f;
  r = t * m + r;
  r = r * m + 0.333331972f;
  r = r * m + -0.5f;
  r = r * s + m;
  r = i * 0.693147182f + r;
  r = select(a == 0.0f, lowest<f32v>(), r);
  r = select(a == highest<f32v>(), a, r);
  const f32v nan = number<f32v>(__builtin_nan(""));
  return select(narrow(a < 0.0f) | unordered(a), nan, r);
}
INLINE f32v log1p(f32v x) {
  const f32v u = x + 1.0f;
  const f32v lost = (x - (u - 1.0f)) / u;
  const mask plain = narrow(u == 0.0f) | narrow(u == highest<f32v>());
  return select(x == 0.0f, x, log(u) + select(plain, f32v{}, lost));
}
// tanh = t / (t + 2) with t = e^(2|x|) - 1.
INLINE f32v tanh(f32v x) {
  f32v a = abs(x);
  a = select(a > 10.0f, number<f32v>(10), a);
  const f32v t = expm1(a + a);
  const f32v r = t / (t + 2.0f);
  return (f32v)((i32v)r | ((i32v)x & (int32_t)0x80000000));
}
INLINE f32v sigmoid(f32v x) { return 1.0f / (1.0f + exp(-x)); }
// Two ranges: an odd polynomial near zero, 1 - e^polynomial beyond.
INLINE f32v erf(f32v a) {
  const f32v t = abs(a);
  const f32v s = a * a;
  f32v r = t * -1.72853470e-5f + 3.83197126e-4f;
  const f32v u = t * -3.88396438e-3f + 2.42546219e-2f;
  r = r * s + u;
  r = r * t + -1.06777877e-1f;
  r = r * t + -6.34846687e-1f;
  r = r * t + -1.28717512e-1f;
  r = r * t - t;
  // Beyond 4 it is 1, by a number that is lost beside 1, not by a subnormal
  // one, which takes many times as long.
  r = 1.0f - exp(select(t > 4.0f, number<f32v>(-30), r));
  const f32v far = (f32v)((i32v)r | ((i32v)a & (int32_t)0x80000000));
  f32v near = s * -5.96761703e-4f + 4.99119423e-3f;
  near = near * s + -2.67681349e-2f;
  near = near * s + 1.12819925e-1f;
  near = near * s + -3.76125336e-1f;
  near = near * s + 1.28379166e-1f;
  near = near * a + a;
  return select(narrow(t > 0.927734375f), far, near);
}
#define DOUBLE_BY_LANE(name)                               \
  INLINE f64v name(f64v v) {                               \
    return each(v, [](double x) { return std::name(x); }); \
  }
DOUBLE_BY_LANE(exp)
DOUBLE_BY_LANE(expm1)
DOUBLE_BY_LANE(log)
DOUBLE_BY_LANE(log1p)
DOUBLE_BY_LANE(tanh) DOUBLE_BY_LANE(erf) INLINE f64v sigmoid(f64v x) {
  return 1.0 / (1.0 + exp(-x));
}
template <class V>
INLINE V pow(V a, V b) {
  return each(a, b, [](element<V> x, element<V> y) { return std::pow(x, y); });
}
template <class V>
INLINE V atan2(V a, V b) {
  return each(a, b,
              [](element<V> x, element<V> y) { return std::atan2(x, y); });
}
template <class V>
INLINE V div_floor(V a, V b) {
  return each(a, b, [](element<V> x, element<V> y) -> element<V> {
    if constexpr (is_real<element<V>>) {
      if (y == 0) return x / y;
      const element<V> rest = std::fmod(x, y);
      element<V> q = (x - rest) / y;
      if (rest != 0 && (y < 0) != (rest < 0)) q -= 1;
      if (q == 0) return std::copysign(element<V>(0), x / y);
      const element<V> whole = std::floor(q);
      return q - whole > element<V>(0.5) ? whole + 1 : whole;
    } else {
      if (y == 0) return 0;
      return x / y - (x % y != 0 && (x < 0) != (y < 0));
    }
  });
}
template <class V>
INLINE V div_trunc(V a, V b) {
  if constexpr (is_real<element<V>>)
    return trunc(a / b);
  else
    return each(a, b, [](auto x, auto y) { return y == 0 ? 0 : x / y; });
}
template <class V>
INLINE V fmod(V a, V b) {
  return each(a, b, [](element<V> x, element<V> y) -> element<V> {
    if constexpr (is_real<element<V>>)
      return std::fmod(x, y);
    else
      return y == 0 ? 0 : x % y;
  });
}
template <class V>
INLINE V remainder(V a, V b) {
  return each(a, b, [](element<V> x, element<V> y) -> element<V> {
    if constexpr (is_real<element<V>>) {
      const element<V> rest = std::fmod(x, y);
      return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
    } else {
      if (y == 0) return 0;
      const element<V> rest = x % y;
      return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
    }
  });
}
