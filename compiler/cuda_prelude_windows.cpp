// Prelude: rows of windows, read and written by packs.
#include "compiler/cuda_prelude_text.hpp"

namespace weft {

const char* const cuda_windows =
    R"cu(// What lies from `at` on, which is a multiple of a pack; nothing is read
// before the first of `count` elements, nor behind the last.
template <int N, class T>
DEVICE void read_row(T (&row)[N], const T* from, long long at,
                     long long count) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    Pack<T, 4> pack = {};
    if (at + i >= 0 && at + i < count) pack = load_pack<4>(from + at + i);
#pragma unroll
    for (int l = 0; l < 4; ++l) row[i + l] = pack.at[l];
  }
}
// The first `count` elements of each thread's pack, to anywhere: threads that
// are neighbours write neighbours. All threads of a warp come here.
template <class T>
DEVICE void write_row(T* to, const Pack<T, 4>& pack, int count) {
  __shared__ T stage[8][32][4];
  T(*const own)[4] = stage[threadIdx.x / 32];
  const int thread = threadIdx.x % 32;
  __syncwarp();  // who still reads the row before
#pragma unroll
  for (int l = 0; l < 4; ++l) own[thread][l] = pack.at[l];
  __syncwarp();
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int from = 8 * m + thread / 4;
    T* const there = reinterpret_cast<T*>(
        __shfl_sync(0xffffffffu, (unsigned long long)to, from));
    const int some = __shfl_sync(0xffffffffu, count, from);
    if (thread % 4 < some) there[thread % 4] = own[from][thread % 4];
  }
}

)cu";

}  // namespace weft
