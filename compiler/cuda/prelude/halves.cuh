// Numbers of 16 bits, in memory; all that is computed is a float.
DEVICE float float_of_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
DEVICE unsigned half_of_float(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
// To the nearest, ties to even.
DEVICE unsigned brain_of_float(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const unsigned all = __float_as_int(value);
  return value != value ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
#endif
}
// float16.
struct Half {
  unsigned short bits;
  Half() = default;
  DEVICE Half(float value) : bits(half_of_float(value)) {}
  DEVICE operator float() const { return float_of_half(bits); }
};
// bfloat16, a float's upper half.
struct Brain {
  unsigned short bits;
  Brain() = default;
  DEVICE Brain(float value) : bits(brain_of_float(value)) {}
  DEVICE operator float() const { return __int_as_float(bits << 16); }
};
// Packs of them in words: else no more than four are read at once.
template <int N, class T>
DEVICE Pack<T, N> load_words(const T* from) {
  Pack<T, N> pack;
  if constexpr (N == 1) {
    pack.at[0] = *from;
  } else {
    const auto words = load_pack<N / 2>(reinterpret_cast<const int*>(from));
    memcpy(&pack, &words, sizeof pack);
  }
  return pack;
}
template <int N, class T>
DEVICE void store_words(T* to, const Pack<T, N>& pack) {
  static_assert(N > 1, "one element is stored as it is");
  Pack<int, N / 2> words;
  memcpy(&words, &pack, sizeof pack);
  store_pack(reinterpret_cast<int*>(to), words);
}
template <int N>
DEVICE Pack<Half, N> load_pack(const Half* from) {
  return load_words<N>(from);
}
template <int N>
DEVICE Pack<Brain, N> load_pack(const Brain* from) {
  return load_words<N>(from);
}
template <int N>
DEVICE void store_pack(Half* to, const Pack<Half, N>& pack) {
  store_words(to, pack);
}
template <int N>
DEVICE void store_pack(Brain* to, const Pack<Brain, N>& pack) {
  store_words(to, pack);
}
