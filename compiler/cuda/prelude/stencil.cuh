// Partial folds of four contiguous elements of a row, and of four in the halo
// that the neighbouring warp owns.
template <class F, bool HALO>
struct PartialVector {
  using Value = typename F::Value;
  Value own[4];
  Value halo[HALO ? 4 : 1];
  DEVICE PartialVector() {
#pragma unroll
    for (int l = 0; l < 4; ++l) own[l] = halo[HALO ? l : 0] = F::none();
  }
  static DEVICE void take(Value (&into)[4], const Value* from) {
    const Vector<Value, 4> vector = load_vector<4>(from);
#pragma unroll
    for (int l = 0; l < 4; ++l) into[l] = F::of(into[l], vector.at[l]);
  }
  DEVICE void fold(const PartialVector& other) {
#pragma unroll
    for (int l = 0; l < 4; ++l) own[l] = F::of(own[l], other.own[l]);
#pragma unroll
    for (int l = 0; l < (HALO ? 4 : 0); ++l)
      halo[l] = F::of(halo[l], other.halo[l]);
  }
};
// The first LEFT threads of a warp have what lies before it, the last RIGHT
// what lies behind; the others have no halo: -1.
template <int LEFT, int RIGHT>
DEVICE int halo_vector(int vector) {
  const int thread = threadIdx.x % 32;
  if (thread < LEFT) return vector - LEFT;
  return thread >= 32 - RIGHT ? vector + RIGHT : -1;
}
// The element of the thread that is VECTORS further in the row. All threads of
// a warp take part.
template <int VECTORS, int LEFT, int RIGHT, class T>
DEVICE T beside(T own, T halo) {
  const int from = (int)(threadIdx.x % 32) + VECTORS;
  const T near = __shfl_sync(0xffffffffu, own, from & 31);
  if (LEFT + RIGHT == 0) return near;
  const int other = VECTORS < 0 ? from + LEFT : from - RIGHT;
  const T farther = __shfl_sync(0xffffffffu, halo, other & 31);
  return from < 0 || from > 31 ? farther : near;
}
template <class T>
DEVICE T only_if(bool exists, T value, T none) {
  return exists ? value : none;
}
