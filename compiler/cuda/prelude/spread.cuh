// Mean and sum of squares about it, in one walk. A lane counts from its own
// first value, so that little is lost; then parts are put together (Chan).
template <class T>
struct Moments {
  T count;
  T mean;
  T squares;
};
template <class T>
struct Shifted {
  T count;
  T begin;
  T sum;
  T squares;
};
template <class T>
DEVICE T share_of(T part, T whole) {
  return whole == 0 ? T(0) : part / whole;
}
DEVICE float share_of(float part, float whole) {
  return whole == 0 ? 0.0f : __fdividef(part, whole);
}
template <class T>
struct Spread {
  using Value = Moments<T>;
  static DEVICE Shifted<T> nothing() { return {T(0), T(0), T(0), T(0)}; }
  static DEVICE Shifted<T> next(Shifted<T> a, T x) {
    const T begin = a.count == 0 ? (is_finite(x) ? x : T(0)) : a.begin;
    const T d = x - begin;
    return {a.count + 1, begin, a.sum + d, a.squares + d * d};
  }
  static DEVICE Value closed(Shifted<T> a) {
    const T drift = share_of(a.sum, a.count);
    const T rest = a.squares - a.sum * drift;
    // Overflown, not infinite: so is the result.
    const bool is_over = is_finite(a.sum) && !is_finite(a.squares);
    return {a.count, a.begin + drift, is_over ? a.squares : larger(rest, T(0))};
  }
  static DEVICE Value none() { return {T(0), T(0), T(0)}; }
  static DEVICE Value of(Value a, Value b) {
    const T count = a.count + b.count;
    const T share = share_of(b.count, count);
    const T both = a.count * share;
    const T d = b.mean - a.mean;
    return {count, is_finite(d) ? a.mean + d * share : a.mean + b.mean,
            a.squares + b.squares + (both == 0 ? T(0) : d * d * both)};
  }
};
// Many parts at once: their mean is one of theirs and what the others drift
// from it, each by its share; then their squares are put about the mean of all.
template <class T>
DEVICE T anchor_of(Moments<T> part) {
  const bool is_one = part.count != 0 && is_finite(part.mean);
  return is_one ? part.mean : T(-INFINITE);
}
template <class T>
DEVICE T anchored(T anchor) {
  return anchor > T(-INFINITE) ? anchor : T(0);
}
template <class T>
DEVICE T drift_of(Moments<T> part, T anchor, T count) {
  const T d = part.mean - anchor;
  if (part.count == 0) return T(0);
  return is_finite(d) ? d * share_of(part.count, count) : part.mean;
}
template <class T>
DEVICE T squares_about(Moments<T> part, T mean) {
  const T d = part.mean - mean;
  return part.count == 0 ? T(0) : part.squares + d * d * part.count;
}
template <class F, int N, class T>
DEVICE Moments<T> fold_lanes(const Moments<T> (&parts)[N]) {
  T count = 0, anchor = -INFINITE, drift = 0, squares = 0;
#pragma unroll
  for (int l = 0; l < N; ++l) {
    count += parts[l].count;
    anchor = larger(anchor, anchor_of(parts[l]));
  }
  anchor = anchored(anchor);
#pragma unroll
  for (int l = 0; l < N; ++l) drift += drift_of(parts[l], anchor, count);
  const T mean = anchor + drift;
#pragma unroll
  for (int l = 0; l < N; ++l) squares += squares_about(parts[l], mean);
  return {count, mean, squares};
}
template <class F, int N, class T>
DEVICE Moments<T> close_lanes(const Shifted<T> (&lanes)[N]) {
  Moments<T> parts[N];
#pragma unroll
  for (int l = 0; l < N; ++l) parts[l] = F::closed(lanes[l]);
  return fold_lanes<F, N>(parts);
}
template <class F, int R, class T>
DEVICE Moments<T> fold_warp(Moments<T> part) {
  T count = part.count, anchor = anchor_of(part);
#pragma unroll
  for (int mask = R / 2; mask > 0; mask /= 2) {
    count += of_neighbour(count, mask);
    anchor = larger(anchor, of_neighbour(anchor, mask));
  }
  anchor = anchored(anchor);
  T drift = drift_of(part, anchor, count);
#pragma unroll
  for (int mask = R / 2; mask > 0; mask /= 2) {
    drift += of_neighbour(drift, mask);
  }
  const T mean = anchor + drift;
  T squares = squares_about(part, mean);
#pragma unroll
  for (int mask = R / 2; mask > 0; mask /= 2) {
    squares += of_neighbour(squares, mask);
  }
  return {count, mean, squares};
}
