// Prelude: how threads, blocks and clusters put their folds together, and what
// they hold on the chip.
#include "compiler/cuda/prelude/text.hpp"

namespace weft {

const char* const cuda_block =
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

const char* const cuda_columns =
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

const char* const cuda_cluster = R"cu(DEVICE void meet_cluster() {
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

const char* const cuda_team =
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

const char* const cuda_ring =
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
template <int N, class P, class T, class I>
DEVICE void copy_some(P* to, const T* from, I first, I count) {
  if (first >= 0 && first <= count - N) {
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

const char* const cuda_scan =
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

}  // namespace weft
