// A quotient of what lies in [0, 1] and what is at least 1 (but for rounding).
DEVICE float share(float x, Divisor y) {
  const float near = x * y.inverse;
  return fma(fma(-near, y.by, x), y.inverse, near);
}
