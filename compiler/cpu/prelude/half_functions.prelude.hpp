
// --- Functions whose result is rounded to a half next. Their relative error is
// at most 2^-16 (float16 rounds by 2^-12), which takes half of the time.

// 1 / x of numbers from 1 to 2^64.
template <class V>
INLINE V half_reciprocal(V x) {
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    const V near = (V)_mm512_rcp14_ps((__m512)x);
    return near + near * (1.0f - x * near);
  }
#endif
  return 1.0f / x;
}
// e^x of numbers from -160 to 89. The polynomial is 2^r for |r| <= 1/2; that
// e^0 is 1 keeps digits of logarithms of sums.
INLINE f32v half_exp_within(f32v x) {
  const f32v shifted = x * 0x1.715476p+0f + 0x1.8p+23f;
  const f32v whole = shifted - 0x1.8p+23f;
  const f32v r = x * 0x1.715476p+0f - whole;
  f32v p = r * 0x1.3a02ccp-7f + 0x1.c9fc46p-5f;
  p = p * r + 0x1.ec0378p-3f;
  p = p * r + 0x1.62e12cp-1f;
  p = p * r + 1.0f;
  return scaled(p, whole, (i32v)shifted - 0x4b400000);
}
INLINE f32v half_exp(f32v x) { return half_exp_within(clamped(x, -105, 89)); }
INLINE f32v half_sigmoid(f32v x) { return 1.0f / (1.0f + half_exp(-x)); }
INLINE f32v half_silu(f32v x) { return x / (1.0f + half_exp(-x)); }
INLINE f32v half_gelu_tanh(f32v x) {
  const f32v inner = -1.5957691216057308f * (x + 0.044715f * (x * x * x));
  return x / (1.0f + half_exp(inner));
}
// A quotient of polynomials in x^2. Beyond 6 all halves are 1.
INLINE f32v half_tanh(f32v x) {
  const f32v a = clamped(x, -6, 6);
  const f32v s = a * a;
  f32v p = s * 4.5688697801601e-06f + 0.0024041925346548823f;
  p = p * s + 0.12441209610378173f;
  p = p * s + 0.9999996966199908f;
  f32v q = s * 0.00015653843473157185f + 0.021655428869393686f;
  q = q * s + 0.45774287668203884f;
  q = q * s + 1.0f;
  return p * a * half_reciprocal(q);
}
// x times the normal distribution, whose tail is e^(-x^2 / 2) times a
// polynomial in 1 / (1 + 0.31 |x|): 1 + erf would have no digits there.
INLINE f32v half_gelu(f32v x) {
  const f32v a = minimum(abs(x), number<f32v>(15));
  const f32v k = half_reciprocal(a * 0.31f + 1.0f);
  f32v p = k * -0.07392899750938028f + 0.180449928635044f;
  p = p * k + 0.015745180876305363f;
  p = p * k + 0.1334295282506273f;
  p = p * k + 0.12044134394457337f;
  p = p * k + 0.12386069521023559f;
  const f32v tail = p * k * half_exp_within(a * a * -0.5f);
  return x * select(x < 0.0f, tail, 1.0f - tail);
}

}  // namespace
