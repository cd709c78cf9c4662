// The largest value, and the sum of e to the power of how far each value lies
// above it, in one walk: where a larger one comes, the sum is scaled.
template <class T>
struct Peak {
  T most;
  T sum;
};
template <class T>
DEVICE Peak<T> of_neighbour(Peak<T> peak, int mask) {
  return {__shfl_xor_sync(0xffffffffu, peak.most, mask),
          __shfl_xor_sync(0xffffffffu, peak.sum, mask)};
}
template <class T>
struct Exponentials {
  using Value = Peak<T>;
  static DEVICE Value none() { return {T(-INFINITE), T(0)}; }
  static DEVICE Value next(Value a, T x) {
    const T scale = exp_added(-fabs(x - a.most));
    // An infinity above itself is NaN, as it is in the sum of two walks.
    const T own = is_finite(x) ? T(1) : T(NOT_A_NUMBER);
    if (x > a.most || x != x) return {x, a.sum * scale + own};
    return {a.most, x > T(-INFINITE) ? a.sum + scale : a.sum};
  }
  // Of neighbours at once: seldom is one larger than all before.
  template <int N>
  static DEVICE Value next(Value a, const T (&x)[N]) {
    T most = x[0];
#pragma unroll
    for (int l = 1; l < N; ++l) most = larger(most, x[l]);
    if (!(most <= a.most)) {
      most = larger(most, a.most);
      a = {most, a.sum * exp_added(a.most - most)};
    }
    const T from = a.most == T(-INFINITE) ? T(0) : a.most;
    T sum = exp_added(x[0] - from);
#pragma unroll
    for (int l = 1; l < N; ++l) sum += exp_added(x[l] - from);
    return {a.most, a.sum + sum};
  }
  static DEVICE Value of(Value a, Value b) {
    const T most = larger(a.most, b.most);
    const T from = most == T(-INFINITE) ? T(0) : most;
    return {most, a.sum * exp_added(a.most - from) +
                      b.sum * exp_added(b.most - from)};
  }
};
