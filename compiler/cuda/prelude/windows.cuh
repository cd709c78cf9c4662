// What lies from `at` on, which is a multiple of a vector; nothing is read
// before the first of `count` elements, nor behind the last.
template <int N, class T>
DEVICE void read_row(T (&row)[N], const T* from, long long at,
                     long long count) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    Vector<T, 4> vector = {};
    if (at + i >= 0 && at + i < count) vector = load_vector<4>(from + at + i);
#pragma unroll
    for (int l = 0; l < 4; ++l) row[i + l] = vector.at[l];
  }
}
// Where a warp's vectors go, to anywhere: threads that are neighbours write
// neighbours, each one element of four vectors. Of a vector `count` elements
// exist, and `rows` vectors below it.
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
DEVICE void write_row(const RowPlaces<T>& places, const Vector<T, 4>& vector,
                      int row, I further) {
  __shared__ Vector<T, 4> stage[8][32];
  Vector<T, 4>* const own = stage[threadIdx.x / 32];
  const int thread = threadIdx.x % 32;
  __syncwarp();  // the last row is still being read
  own[thread] = vector;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    if (row >= places.rows[m]) continue;
    places.to[m][further] = own[8 * m + thread / 4].at[thread % 4];
  }
}
