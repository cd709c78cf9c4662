// Prelude: rows of windows, read and written by packs, and strips of them.
#include "compiler/cuda/prelude/text.hpp"

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
// Where a warp's packs go, to anywhere: threads that are neighbours write
// neighbours, each one element of four packs. Of a pack `count` elements exist,
// and `rows` packs below it.
template <class T>
struct RowPlaces {
  T* to[4];
  int rows[4];
};
// All threads of a warp come here, and there.
template <class T>
DEVICE RowPlaces<T> row_places(T* to, int count, int rows) {
  RowPlaces<T> places;
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int from = 8 * m + threadIdx.x % 32 / 4;
    places.to[m] = lane + reinterpret_cast<T*>(__shfl_sync(
        0xffffffffu, (unsigned long long)to, from));
    const int some = __shfl_sync(0xffffffffu, count, from);
    const int all = __shfl_sync(0xffffffffu, rows, from);
    places.rows[m] = lane < some ? all : 0;
  }
  return places;
}
// Row `row` of these, `further` elements behind the first.
template <class T, class I>
DEVICE void write_row(const RowPlaces<T>& places, const Pack<T, 4>& pack,
                      int row, I further) {
  __shared__ Pack<T, 4> stage[8][32];
  Pack<T, 4>* const own = stage[threadIdx.x / 32];
  const int thread = threadIdx.x % 32;
  __syncwarp();  // who still reads the row before
  own[thread] = pack;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    if (row >= places.rows[m]) continue;
    places.to[m][further] = own[8 * m + thread / 4].at[thread % 4];
  }
}

)cu";

const char* const cuda_strips =
    R"cu(// Folds of four neighbours of a row, and of four that a warp's neighbour has.
template <class F, bool FAR>
struct Strip {
  using Value = typename F::Value;
  Value own[4];
  Value far[FAR ? 4 : 1];
  DEVICE Strip() {
#pragma unroll
    for (int l = 0; l < 4; ++l) own[l] = far[FAR ? l : 0] = F::none();
  }
  static DEVICE void take(Value (&into)[4], const Value* from) {
    const Pack<Value, 4> pack = load_pack<4>(from);
#pragma unroll
    for (int l = 0; l < 4; ++l) into[l] = F::of(into[l], pack.at[l]);
  }
  DEVICE void fold(const Strip& other) {
#pragma unroll
    for (int l = 0; l < 4; ++l) own[l] = F::of(own[l], other.own[l]);
#pragma unroll
    for (int l = 0; l < (FAR ? 4 : 0); ++l) far[l] = F::of(far[l], other.far[l]);
  }
};
// The first LEFT threads of a warp have what lies before it, the last RIGHT
// what lies behind; the others have nothing: -1.
template <int LEFT, int RIGHT>
DEVICE int far_pack(int pack) {
  const int thread = threadIdx.x % 32;
  if (thread < LEFT) return pack - LEFT;
  return thread >= 32 - RIGHT ? pack + RIGHT : -1;
}
// That element of the thread so many packs further. All threads of a warp come
// here.
template <int PACKS, int LEFT, int RIGHT, class T>
DEVICE T beside(T own, T far) {
  const int from = (int)(threadIdx.x % 32) + PACKS;
  const T near = __shfl_sync(0xffffffffu, own, from & 31);
  if (LEFT + RIGHT == 0) return near;
  const int other = PACKS < 0 ? from + LEFT : from - RIGHT;
  const T farther = __shfl_sync(0xffffffffu, far, other & 31);
  return from < 0 || from > 31 ? farther : near;
}
template <class T>
DEVICE T only_if(bool exists, T value, T none) {
  return exists ? value : none;
}

)cu";

}  // namespace weft
