#include "compiler/cuda_prelude.hpp"

#include <map>
#include <vector>

namespace weft {
namespace {

constexpr const char* packs = R"cu(#define DEVICE __device__ __forceinline__
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

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
template <int N, class T>
DEVICE Pack<T, N> load_some(const T* from, long long first, long long count) {
  if (first >= 0 && first + N <= count) return load_pack<N>(from);
  Pack<T, N> pack;
#pragma unroll
  for (int l = 0; l < N; ++l) {
    pack.at[l] = first + l >= 0 && first + l < count ? from[l] : T(0);
  }
  return pack;
}
template <int N, class T>
DEVICE void store_some(T* to, const Pack<T, N>& pack, long long first,
                       long long count) {
  if (first >= 0 && first + N <= count) return store_pack(to, pack);
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

constexpr const char* folds =
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
template <class F, int N>
DEVICE typename F::Value fold_lanes(const typename F::Value (&lanes)[N]) {
  typename F::Value all = lanes[0];
#pragma unroll
  for (int l = 1; l < N; ++l) all = F::of(all, lanes[l]);
  return all;
}
// Over groups of R neighbouring threads of a warp.
template <class F, int R>
DEVICE typename F::Value fold_warp(typename F::Value value) {
#pragma unroll
  for (int mask = R / 2; mask > 0; mask /= 2) {
    value = F::of(value, of_neighbour(value, mask));
  }
  return value;
}

)cu";

constexpr const char* arg_folds =
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

constexpr const char* spread =
    R"cu(// Mean and sum of squares about it, in one walk. A lane counts from its own
// first value, so that little is lost; then parts are put together (Chan).
template <class T>
struct Moments {
  T count;
  T mean;
  T squares;
};
template <class T>
DEVICE Moments<T> of_neighbour(Moments<T> part, int mask) {
  return {__shfl_xor_sync(0xffffffffu, part.count, mask),
          __shfl_xor_sync(0xffffffffu, part.mean, mask),
          __shfl_xor_sync(0xffffffffu, part.squares, mask)};
}
template <class T>
struct Shifted {
  T count;
  T begin;
  T sum;
  T squares;
};
template <class T>
struct Spread {
  using Value = Moments<T>;
  static DEVICE Shifted<T> nothing() { return {T(0), T(0), T(0), T(0)}; }
  static DEVICE Shifted<T> next(Shifted<T> a, T x) {
    const T begin = a.count == 0 ? (x - x == 0 ? x : T(0)) : a.begin;
    const T d = x - begin;
    return {a.count + 1, begin, a.sum + d, a.squares + d * d};
  }
  static DEVICE Value closed(Shifted<T> a) {
    if (a.count == 0) return none();
    const T drift = a.sum / a.count;
    return {a.count, a.begin + drift, larger(a.squares - a.sum * drift, T(0))};
  }
  static DEVICE Value none() { return {T(0), T(0), T(0)}; }
  static DEVICE Value of(Value a, Value b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const T count = a.count + b.count;
    const T share = b.count / count;
    const T d = b.mean - a.mean;
    return {count, a.mean + d * share,
            a.squares + b.squares + d * d * (a.count * share)};
  }
};
template <class F, int N, class L>
DEVICE typename F::Value close_lanes(const L (&lanes)[N]) {
  typename F::Value all = F::closed(lanes[0]);
#pragma unroll
  for (int l = 1; l < N; ++l) all = F::of(all, F::closed(lanes[l]));
  return all;
}

)cu";

constexpr const char* exponentials =
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
    const T scale = exp(-fabs(x - a.most));
    // An infinity above itself is NaN, as it is in the sum of two walks.
    if (x > a.most || x != x) return {x, a.sum * scale + (x - x + 1)};
    return {a.most, x > T(-INFINITE) ? a.sum + scale : a.sum};
  }
  static DEVICE Value of(Value a, Value b) {
    if (b.most > a.most || b.most != b.most) {
      const Value c = a;
      a = b;
      b = c;
    }
    if (b.most == T(-INFINITE)) return a;
    return {a.most, a.sum + b.sum * exp(b.most - a.most)};
  }
};

)cu";

constexpr const char* block =
    R"cu(// Over all T threads of the block; each gets the result.
template <class F, int T>
DEVICE typename F::Value fold_block(typename F::Value value) {
  if constexpr (T <= 32) return fold_warp<F, T>(value);
  __shared__ typename F::Value parts[T / 32];
  const int lane = threadIdx.x % 32;
  value = fold_warp<F, 32>(value);
  __syncthreads();  // who still reads the parts of the fold before
  if (lane == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < T / 32 ? parts[lane] : F::none();
  return fold_warp<F, 32>(value);
}

)cu";

constexpr const char* columns =
    R"cu(// Each lane over the R threads, ACROSS apart, that share its points.
template <class F, int N, int R, int ACROSS>
DEVICE void fold_down(typename F::Value (&lanes)[N]) {
  __shared__ typename F::Value parts[R][ACROSS][N];
  const int across = threadIdx.x % ACROSS;
  __syncthreads();  // who still reads the parts of the fold before
#pragma unroll
  for (int l = 0; l < N; ++l) {
    parts[threadIdx.x / ACROSS][across][l] = lanes[l];
  }
  __syncthreads();
#pragma unroll
  for (int l = 0; l < N; ++l) lanes[l] = parts[0][across][l];
  for (int i = 1; i < R; ++i) {
#pragma unroll
    for (int l = 0; l < N; ++l) {
      lanes[l] = F::of(lanes[l], parts[i][across][l]);
    }
  }
}

)cu";

constexpr const char* cluster = R"cu(DEVICE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Into the same place of another block's shared memory.
template <class V>
DEVICE void store_remote(V* to, int block, const V& value) {
  const unsigned* words = reinterpret_cast<const unsigned*>(&value);
  const unsigned here = (unsigned)__cvta_generic_to_shared(to);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(V) / 4); ++i) {
    asm volatile("{\n.reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.u32 [there], %2;\n}"
                 :: "r"(here + 4 * i), "r"(block), "r"(words[i]) : "memory");
  }
}
// Over the G blocks of the cluster. Two sets of parts take turns, so that one
// meeting is enough: who writes a set has met all since it was read.
template <class F, int T, int G>
DEVICE typename F::Value fold_cluster(typename F::Value value, int rank,
                                      int& turn) {
  __shared__ typename F::Value parts[2][G];
  value = fold_block<F, T>(value);
  turn ^= 1;
  if (threadIdx.x < G) store_remote(&parts[turn][rank], threadIdx.x, value);
  meet_cluster();
  value = parts[turn][0];
#pragma unroll
  for (int i = 1; i < G; ++i) value = F::of(value, parts[turn][i]);
  return value;
}

)cu";

constexpr const char* team =
    R"cu(// G blocks that all run, through memory: each has room for its part and
// counts those that came. `goal`: how many must have come.
struct Team {
  unsigned* count;
  unsigned goal;
  int rank;
  int turn;
};
DEVICE void meet_team(unsigned* count, unsigned goal) {
  unsigned came;
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(count)
               : "memory");
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(came) : "l"(count) : "memory");
  } while (came < goal);
}
template <class F, int T, int G>
DEVICE typename F::Value fold_team(typename F::Value value, Team& team,
                                   void* memory) {
  using Value = typename F::Value;
  Value* parts = static_cast<Value*>(memory);
  value = fold_block<F, T>(value);
  team.turn ^= 1;
  team.goal += G;
  parts += team.turn * G;
  if (threadIdx.x == 0) {
    parts[team.rank] = value;
    meet_team(team.count, team.goal);
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  value = F::none();
  for (int i = lane; i < G; i += 32) {
    Value part;
    unsigned* words = reinterpret_cast<unsigned*>(&part);
    const unsigned* from = reinterpret_cast<const unsigned*>(parts + i);
#pragma unroll
    for (int w = 0; w < (int)(sizeof(Value) / 4); ++w) {
      words[w] = __ldcg(from + w);
    }
    value = F::of(value, part);
  }
  return fold_warp<F, 32>(value);
}

)cu";

constexpr const char* ring =
    R"cu(// Copies past the registers, in groups that end in their order. A thread reads
// only what it asked for itself. All of these are volatile, so that they keep
// their order, and touch no other memory, so that the rest need not wait.
template <int BYTES, class T>
DEVICE void copy_async(void* to, const T* from) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(place), "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"(BYTES));
  }
}
// The same, where only lanes from `first` on that are in [0, count) exist.
template <int N, class P, class T>
DEVICE void copy_some(P* to, const T* from, long long first, long long count) {
  if (first >= 0 && first + N <= count) {
    return copy_async<sizeof(P)>(to, from);
  }
#pragma unroll
  for (int l = 0; l < N; ++l) {
    const bool exists = first + l >= 0 && first + l < count;
    if (exists) copy_async<sizeof(T)>(&to->at[l], from + l);
  }
}
DEVICE void close_group() { asm volatile("cp.async.commit_group;"); }
// All groups have come but so many; a constant once loops are unrolled.
DEVICE void await_groups(int pending) {
#define CASE(N) \
  case N: \
    asm volatile("cp.async.wait_group %0;" ::"n"(N)); \
    break;
#define CASES(N) CASE(N) CASE(N + 1) CASE(N + 2) CASE(N + 3)
  switch (pending) {
    CASES(0) CASES(4) CASES(8) CASES(12) CASES(16) CASES(20) CASES(24) CASES(28)
  }
#undef CASES
#undef CASE
}
template <class P>
DEVICE P read_slot(const P* from) {
  P pack;
  unsigned* words = reinterpret_cast<unsigned*>(&pack);
  const unsigned place = (unsigned)__cvta_generic_to_shared(from);
  if constexpr (sizeof(P) == 16) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]),
                   "=r"(words[3])
                 : "r"(place));
  } else if constexpr (sizeof(P) == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1]) : "r"(place));
  } else {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[0]) : "r"(place));
  }
  return pack;
}
// Brings that line into the last cache.
template <class T>
DEVICE void touch(const T* from) {
  asm volatile("prefetch.global.L2 [%0];" :: "l"(from));
}

)cu";

constexpr const char* scan =
    R"cu(// What the block's threads before this one come to, and all together.
template <class F, int T>
DEVICE typename F::Value fold_before(typename F::Value own,
                                     typename F::Value& all) {
  using Value = typename F::Value;
  __shared__ Value parts[T / 32];
  const int lane = threadIdx.x % 32;
  Value upto = own;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const Value other = __shfl_up_sync(0xffffffffu, upto, far);
    if (lane >= far) upto = F::of(other, upto);
  }
  __syncthreads();  // who still reads the parts of the fold before
  if (lane == 31) parts[threadIdx.x / 32] = upto;
  __syncthreads();
  Value before = F::none();
  all = F::none();
  for (int i = 0; i < T / 32; ++i) {
    if (i == threadIdx.x / 32) before = all;
    all = F::of(all, parts[i]);
  }
  const Value left = __shfl_up_sync(0xffffffffu, upto, 1);
  return lane == 0 ? before : F::of(before, left);
}

)cu";

struct Section {
  const char* name;
  const char* text;
  std::vector<std::string> needs;
};

// In the order of printing: each after what it needs.
const std::vector<Section>& sections_in_order() {
  static const std::vector<Section> list = {
      {"packs", packs, {}},
      {"folds", folds, {}},
      {"arg_folds", arg_folds, {"folds"}},
      {"exponentials", exponentials, {"folds"}},
      {"spread", spread, {"folds"}},
      {"block", block, {"folds"}},
      {"columns", columns, {"folds"}},
      {"cluster", cluster, {"block"}},
      {"team", team, {"block"}},
      {"ring", ring, {}},
      {"scan", scan, {"folds"}},
  };
  return list;
}

}  // namespace

std::string cuda_prelude(const std::set<std::string>& sections) {
  std::set<std::string> wanted = sections;
  wanted.insert("packs");
  const auto& list = sections_in_order();
  for (auto section = list.rbegin(); section != list.rend(); ++section) {
    if (!wanted.contains(section->name)) continue;
    wanted.insert(section->needs.begin(), section->needs.end());
  }
  std::string text;
  for (const Section& section : list) {
    if (wanted.contains(section.name)) text += section.text;
  }
  return text;
}

}  // namespace weft
