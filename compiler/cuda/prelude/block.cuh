// Over all T threads of the block; each gets the result.
template <class F, int T>
DEVICE typename F::Value fold_block(typename F::Value value) {
  if constexpr (T <= 32) return fold_warp<F, T>(value);
  __shared__ typename F::Value parts[T / 32];
  const int lane = threadIdx.x % 32;
  value = fold_warp<F, 32>(value);
  __syncthreads();  // the last fold's parts are still being read
  if (lane == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < T / 32 ? parts[lane] : F::none();
  return fold_warp<F, 32>(value);
}
