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
DEVICE Vector<T, N> load_vector_words(const T* from) {
  Vector<T, N> vector;
  if constexpr (N == 1) {
    vector.at[0] = *from;
  } else {
    const auto words = load_vector<N / 2>(reinterpret_cast<const int*>(from));
    memcpy(&vector, &words, sizeof vector);
  }
  return vector;
}
template <int N, class T>
DEVICE void store_vector_words(T* to, const Vector<T, N>& vector) {
  static_assert(N > 1, "one element is stored as it is");
  Vector<int, N / 2> words;
  memcpy(&words, &vector, sizeof vector);
  store_vector(reinterpret_cast<int*>(to), words);
}
template <int N>
DEVICE Vector<Half, N> load_vector(const Half* from) {
  return load_vector_words<N>(from);
}
template <int N>
DEVICE Vector<Brain, N> load_vector(const Brain* from) {
  return load_vector_words<N>(from);
}
template <int N>
DEVICE void store_vector(Half* to, const Vector<Half, N>& vector) {
  store_vector_words(to, vector);
}
template <int N>
DEVICE void store_vector(Brain* to, const Vector<Brain, N>& vector) {
  store_vector_words(to, vector);
}
