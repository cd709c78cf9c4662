// 2^x as the hardware has it, right to two units; 0 below 2^-126.
DEVICE float hardware_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
