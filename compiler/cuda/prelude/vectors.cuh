#define DEVICE __device__ __forceinline__
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

// The model's own sums and products: each is rounded, as the framework rounds
// it. Those within an operator (a fold's, a polynomial's) are plain, and the
// compiler fuses them.
template <class T>
DEVICE T plus(T a, T b) {
  return a + b;
}
template <class T>
DEVICE T minus(T a, T b) {
  return a - b;
}
template <class T>
DEVICE T times(T a, T b) {
  return a * b;
}
#ifndef WEFT_ROUNDS_FREELY
template <>
DEVICE float plus(float a, float b) {
  return __fadd_rn(a, b);
}
template <>
DEVICE float minus(float a, float b) {
  return __fsub_rn(a, b);
}
template <>
DEVICE float times(float a, float b) {
  return __fmul_rn(a, b);
}
template <>
DEVICE double plus(double a, double b) {
  return __dadd_rn(a, b);
}
template <>
DEVICE double minus(double a, double b) {
  return __dsub_rn(a, b);
}
template <>
DEVICE double times(double a, double b) {
  return __dmul_rn(a, b);
}
#endif

// Not by x - x: of a product the compiler makes what rounding left of it.
template <class T>
DEVICE bool is_finite(T x) {
  return fabs(x) < T(INFINITE);
}

// Contiguous elements, read and written in one access.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Vector {
  T at[N];
};
template <int N, class T>
DEVICE Vector<T, N> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <int N, class T>
DEVICE void store_vector(T* to, const Vector<T, N>& vector) {
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}
// The same where only lanes from `first` on that are in [0, count) exist.
template <int N, class T, class I>
DEVICE Vector<T, N> load_masked(const T* from, I first, I count) {
  if (first >= 0 && first <= count - N) return load_vector<N>(from);
  Vector<T, N> vector;
#pragma unroll
  for (int l = 0; l < N; ++l) {
    vector.at[l] = first + l >= 0 && first + l < count ? from[l] : T(0);
  }
  return vector;
}
template <int N, class T, class I>
DEVICE void store_masked(T* to, const Vector<T, N>& vector, I first, I count) {
  if (first >= 0 && first <= count - N) return store_vector(to, vector);
#pragma unroll
  for (int l = 0; l < N; ++l) {
    if (first + l >= 0 && first + l < count) to[l] = vector.at[l];
  }
}

// NaN is both the largest and the smallest number.
template <class T>
DEVICE T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
DEVICE T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
DEVICE float larger(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
DEVICE float smaller(float a, float b) {
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}
