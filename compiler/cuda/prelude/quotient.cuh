DEVICE float quotient(float x, Divisor y) {
  const float near = x * y.inverse;
  const float exact = fma(fma(-near, y.by, x), y.inverse, near);
  return (is_finite(exact) ? exact : near) * y.scale;
}
