
// --- Halves: 16 bits in memory, float in arithmetic. Conversions to them round
// to the nearest, ties to even; NaN stays NaN.
using u16v = vec<uint16_t>;
using u32v = vec<uint32_t>;

// GCC 12 splits a conversion to wider lanes into two halves of a vector.
template <class V, class H>
INLINE V widened(H bits) {
#if defined(__AVX512F__)
  if constexpr (W == 16) return (V)_mm512_cvtepu16_epi32((__m256i)bits);
#endif
#if defined(__AVX2__)
  if constexpr (W == 8) return (V)_mm256_cvtepu16_epi32((__m128i)bits);
#endif
  return convert<V>(bits);
}
// A bfloat16 is the upper half of a float: one instruction puts it there, which
// is faster than two that widen and shift.
template <class H, class V = f32v>
INLINE V from_bfloat16(H bits) {
#if defined(__AVX512BW__)
  if constexpr (W == 16) {
    alignas(64) static constexpr uint16_t kUpper[32] = {
        0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
        0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    return (V)_mm512_maskz_permutexvar_epi16(
        0xaaaaaaaau, _mm512_load_si512(kUpper),
        _mm512_castsi256_si512((__m256i)bits));
  }
#endif
  return (V)(widened<u32v>(bits) << 16);
}
// The number as a float, by arithmetic on its bits.
INLINE f32v nearest_bfloat16_bits(f32v value) {
  const u32v bits = (u32v)value;
  const u32v up = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return value == value ? (f32v)up : (f32v)((bits | 0x400000) & 0xffff0000);
}
// Whether a lane is subnormal, which VCVTNEPS2BF16 takes for zero.
#if defined(__AVX512BF16__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
template <class V>
INLINE bool has_subnormal(V value) {
  constexpr int kSubnormal = 0x20;
  if constexpr (W == 16)
    return _mm512_fpclass_ps_mask((__m512)value, kSubnormal) != 0;
  else if constexpr (W == 8)
    return _mm256_fpclass_ps_mask((__m256)value, kSubnormal) != 0;
  else
    return true;
}
#endif
template <class V, class H = u16v>
INLINE H to_bfloat16(V value) {
#if defined(__AVX512BF16__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
  if (__builtin_expect(!has_subnormal(value), 1)) {
    if constexpr (W == 16)
      return (H)_mm512_cvtneps_pbh((__m512)value);
    else if constexpr (W == 8)
      return (H)_mm256_cvtneps_pbh((__m256)value);
  }
#endif
  return convert<u16v>((u32v)nearest_bfloat16_bits(value) >> 16);
}
INLINE f32v nearest_bfloat16(f32v value) {
#if defined(__AVX512BF16__)
  if constexpr (W >= 8) return from_bfloat16(to_bfloat16(value));
#endif
  return nearest_bfloat16_bits(value);
}

template <class H, class V = f32v>
INLINE V from_float16(H bits) {
#if defined(__AVX512F__)
  if constexpr (W == 16) return (V)_mm512_cvtph_ps((__m256i)bits);
#endif
#if defined(__F16C__)
  if constexpr (W == 8) return (V)_mm256_cvtph_ps((__m128i)bits);
#endif
  const u32v wide = widened<u32v>(bits);
  const u32v magnitude = (wide & 0x7fff) << 13;
  // The exponents differ by 112. A product is right for subnormal numbers, too.
  u32v number = (u32v)((f32v)magnitude * 0x1p112f);
  number |= magnitude >= 0x0f800000 ? u32v{} + 0x7f800000 : u32v{};
  return (f32v)(number | ((wide & 0x8000) << 16));
}
template <class V, class H = u16v>
INLINE H to_float16(V value) {
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    return (H)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
  }
#endif
#if defined(__F16C__)
  if constexpr (W == 8) {
    return (H)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
  }
#endif
  const u32v bits = (u32v)value;
  const u32v magnitude = bits & 0x7fffffff;
  const u32v normal =
      (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Beside 0.5 the last bit of a float is that of a subnormal half.
  const u32v small = (u32v)((f32v)magnitude + 0.5f) - 0x3f000000;
  u32v half = magnitude < 0x38800000 ? small : normal;
  half = magnitude >= 0x477ff000 ? u32v{} + 0x7c00 : half;
  half = magnitude > 0x7f800000 ? u32v{} + 0x7e00 : half;
  return convert<u16v>(half | ((bits >> 16) & 0x8000));
}
INLINE f32v nearest_float16(f32v value) {
  return from_float16(to_float16(value));
}
