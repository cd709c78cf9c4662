// A fold: its value before anything came, and of two values together.
template <class T>
struct Sum {
  using Value = T;
  static DEVICE T none() { return 0; }
  static DEVICE T of(T a, T b) { return a + b; }
};
template <class T>
struct Product {
  using Value = T;
  static DEVICE T none() { return 1; }
  static DEVICE T of(T a, T b) { return a * b; }
};
template <class T>
DEVICE T least_of() {
  return T(-INFINITE);
}
template <>
DEVICE int least_of<int>() {
  return -2147483647 - 1;
}
template <>
DEVICE long long least_of<long long>() {
  return -9223372036854775807ll - 1;
}
template <class T>
DEVICE T most_of() {
  return T(INFINITE);
}
template <>
DEVICE int most_of<int>() {
  return 2147483647;
}
template <>
DEVICE long long most_of<long long>() {
  return 9223372036854775807ll;
}
template <class T>
struct Max {
  using Value = T;
  static DEVICE T none() { return least_of<T>(); }
  static DEVICE T of(T a, T b) { return larger(a, b); }
};
template <class T>
struct Min {
  using Value = T;
  static DEVICE T none() { return most_of<T>(); }
  static DEVICE T of(T a, T b) { return smaller(a, b); }
};

// The same value in the thread whose number differs in the bits of `mask`.
template <class T>
DEVICE T of_neighbour(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class F, int N, class V>
DEVICE V fold_lanes(const V (&lanes)[N]) {
  V all = lanes[0];
#pragma unroll
  for (int l = 1; l < N; ++l) all = F::of(all, lanes[l]);
  return all;
}
// Over groups of R neighbouring threads of a warp.
template <class F, int R, class V>
DEVICE V fold_warp(V value) {
#pragma unroll
  for (int mask = R / 2; mask > 0; mask /= 2) {
    value = F::of(value, of_neighbour(value, mask));
  }
  return value;
}
