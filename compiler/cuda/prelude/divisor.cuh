// What many are divided by is inverted once, at a size that has an inverse.
struct Divisor {
  float by;
  float inverse;
  float scale;
};
DEVICE Divisor divisor(float y) {
  const float scale = fabs(y) < 1e-30f  ? 0x1p64f
                      : fabs(y) > 1e30f ? 0x1p-64f
                                        : 1.0f;
  return {y * scale, 1 / (y * scale), scale};
}
