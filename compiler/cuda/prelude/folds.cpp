// Prelude: packs of elements, and folds of values.
#include "compiler/cuda/prelude/text.hpp"

namespace weft {

const char* const cuda_packs = R"cu(#define DEVICE __device__ __forceinline__
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

// Not by x - x: of a product the compiler makes what rounding left of it.
template <class T>
DEVICE bool is_finite(T x) {
  return fabs(x) < T(INFINITE);
}

// Neighbours in memory, read and written at once.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack {
  T at[N];
};
template <int N, class T>
DEVICE Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
DEVICE void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}
// The same where only lanes from `first` on that are in [0, count) exist.
template <int N, class T, class I>
DEVICE Pack<T, N> load_some(const T* from, I first, I count) {
  if (first >= 0 && first <= count - N) return load_pack<N>(from);
  Pack<T, N> pack;
#pragma unroll
  for (int l = 0; l < N; ++l) {
    pack.at[l] = first + l >= 0 && first + l < count ? from[l] : T(0);
  }
  return pack;
}
template <int N, class T, class I>
DEVICE void store_some(T* to, const Pack<T, N>& pack, I first, I count) {
  if (first >= 0 && first <= count - N) return store_pack(to, pack);
#pragma unroll
  for (int l = 0; l < N; ++l) {
    if (first + l >= 0 && first + l < count) to[l] = pack.at[l];
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

)cu";

const char* const cuda_divisor =
    R"cu(// What many are divided by is inverted once, at a size that has an inverse.
struct Divisor {
  float by;
  float inverse;
  float scale;
};
DEVICE Divisor divisor(float y) {
  const float scale = fabs(y) < 1e-30f  ? 0x1p64f
                      : fabs(y) > 1e30f ? 0x1p-64f
                                        : 1.0f;
  return {y * scale, 1 / (y * scale), scale};
}
)cu";

const char* const cuda_quotient =
    R"cu(DEVICE float quotient(float x, Divisor y) {
  const float near = x * y.inverse;
  const float exact = fma(fma(-near, y.by, x), y.inverse, near);
  return (is_finite(exact) ? exact : near) * y.scale;
}

)cu";

const char* const cuda_hardware_exp2 =
    R"cu(// 2^x as the hardware has it, right to two units; 0 below 2^-126.
DEVICE float hardware_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
)cu";

const char* const cuda_exp_below =
    R"cu(// The same, with what is denormal.
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

)cu";

const char* const cuda_share =
    R"cu(// A quotient of what lies in [0, 1] and what is at least 1 (but for rounding).
DEVICE float share(float x, Divisor y) {
  const float near = x * y.inverse;
  return fma(fma(-near, y.by, x), y.inverse, near);
}

)cu";

const char* const cuda_folds =
    R"cu(// A fold: its value before anything came, and of two values together.
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
template <class T> DEVICE T least_of() { return T(-INFINITE); }
template <> DEVICE int least_of<int>() { return -2147483647 - 1; }
template <> DEVICE long long least_of<long long>() {
  return -9223372036854775807ll - 1;
}
template <class T> DEVICE T most_of() { return T(INFINITE); }
template <> DEVICE int most_of<int>() { return 2147483647; }
template <> DEVICE long long most_of<long long>() {
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

)cu";

const char* const cuda_arg_folds =
    R"cu(// The best value with its place; the first of equals wins.
template <class T>
struct Best {
  T value;
  int place;
};
template <class T>
DEVICE Best<T> of_neighbour(Best<T> best, int mask) {
  return {__shfl_xor_sync(0xffffffffu, best.value, mask),
          __shfl_xor_sync(0xffffffffu, best.place, mask)};
}
template <class T>
DEVICE bool equal(T a, T b) {
  return a == b || (a != a && b != b);
}
template <class T>
struct ArgMax {
  using Value = Best<T>;
  static DEVICE Value none() { return {least_of<T>(), 2147483647}; }
  // Where what comes lies behind what came.
  static DEVICE Value next(Value a, T value, int place) {
    const bool second =
        a.value == a.value && (!(value <= a.value) || a.place == 2147483647);
    return {second ? value : a.value, second ? place : a.place};
  }
  static DEVICE Value of(Value a, Value b) {
    const bool second = equal(a.value, b.value) ? b.place < a.place
                        : a.value != a.value    ? false
                                                : !(b.value < a.value);
    return second ? b : a;
  }
};
template <class T>
struct ArgMin {
  using Value = Best<T>;
  static DEVICE Value none() { return {most_of<T>(), 2147483647}; }
  static DEVICE Value next(Value a, T value, int place) {
    const bool second =
        a.value == a.value && (!(value >= a.value) || a.place == 2147483647);
    return {second ? value : a.value, second ? place : a.place};
  }
  static DEVICE Value of(Value a, Value b) {
    const bool second = equal(a.value, b.value) ? b.place < a.place
                        : a.value != a.value    ? false
                                                : !(b.value > a.value);
    return second ? b : a;
  }
};

)cu";

const char* const cuda_exponentials =
    R"cu(// The largest value, and the sum of e to the power of how far each value lies
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
    return {most, a.sum * exp_added(a.most - from) + b.sum * exp_added(b.most - from)};
  }
};

)cu";

const char* const cuda_spread =
    R"cu(// Mean and sum of squares about it, in one walk. A lane counts from its own
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
    return {a.count, a.begin + drift,
            is_over ? a.squares : larger(rest, T(0))};
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
// Many parts at once: their mean is one of theirs and what the others drift from
// it, each by its share; then their squares are put about the mean of all.
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

)cu";

}  // namespace weft
