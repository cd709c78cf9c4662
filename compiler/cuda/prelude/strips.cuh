// Folds of four neighbours of a row, and of four that a warp's neighbour has.
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
    for (int l = 0; l < (FAR ? 4 : 0); ++l)
      far[l] = F::of(far[l], other.far[l]);
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
