// The same, with what is denormal.
DEVICE float hardware_exp2_whole(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
// e^x of what is not above 0 (but by rounding): 2^t, and what t was rounded by.
// Right to two units where it is above e^-10, to five elsewhere.
DEVICE float exp_below(float x) {
  const float from = larger(x, -120.0f);
  const float t = from * 1.442695041f;
  const float power = hardware_exp2_whole(t);
  return fma(power, fma(t, -0.693147181f, from), power);
}
// The same, where it is added to about 1 or more.
DEVICE float exp_added(float x) {
  const float from = larger(x, -120.0f);
  const float t = from * 1.442695041f;
  const float power = hardware_exp2(t);
  return fma(power, fma(t, -0.693147181f, from), power);
}
DEVICE double exp_added(double x) { return exp(x); }
